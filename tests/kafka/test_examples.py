"""The examples run on Kafka by one environment variable, unchanged, and leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from examples import word_count
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(240)]


def run_example(name: str, cluster: Cluster) -> str:
    environment = {**os.environ, "MILLSTREAM_BROKER": cluster.url, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", f"examples.{name}"]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


def test_the_word_count_counts_on_kafka(cluster: Cluster, kafka: KafkaBroker) -> None:
    words: Counter[str] = Counter()
    for sent in word_count.data():
        words.update(sent.value.split())
    shown = run_example("word_count", cluster)
    found = [line.split() for line in shown.splitlines() if line.startswith("  ")]
    assert {word: int(count) for word, count, _bar in found} == words
    assert not {"lines", "word-counts"} & set(kafka.topic_names()), "it could not be run again"
    assert not [group for group in kafka.group_names() if group.startswith("word-count")]


def test_windows_and_branches_run_on_kafka(cluster: Cluster, kafka: KafkaBroker) -> None:
    assert len(run_example("taxi_rides", cluster).strip().splitlines()) >= 3
    assert not [group for group in kafka.group_names() if group.startswith("taxi")]
