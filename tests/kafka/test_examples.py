"""The examples run unchanged on Kafka with one environment variable, and clean up after themselves."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from examples.harness import cleaned_up_cluster, feed
from tests.examples.test_all import EXAMPLES, EXPECTED
from tests.kafka.conftest import settle

from examples import word_count
from millstream import App
from millstream.consumer import Consumer
from millstream.foundation.names import is_valid_name
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(240)]


def test_the_word_count_runs_by_an_environment_variable(cluster: Cluster, kafka: KafkaBroker) -> None:
    environment = {**os.environ, "MILLSTREAM_BROKER": cluster.url, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "examples.word_count"]
    before = {*kafka.topic_names(), *kafka.group_names()}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    words: Counter[str] = Counter()
    for sent in word_count.data():
        words.update(sent.value.split())
    lines = [line.split() for line in ran.stdout.splitlines() if line.startswith("  ")]
    assert {word: int(count) for word, count, _bar in lines} == words
    assert {*kafka.topic_names(), *kafka.group_names()} <= before, "topics or groups were left behind"


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_on_kafka(
    example: str,
    cluster: Cluster,
    kafka: KafkaBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Run in this process, where Spark is already started: its start would take longer than the example."""
    module = importlib.import_module(f"examples.{example}")
    apps = [value for value in vars(module).values() if isinstance(value, App)]
    for app in apps:
        monkeypatch.setattr(app, "data_dir", tmp_path)
        monkeypatch.setattr(app, "broker_url", cluster.url)
    consumer = App.consumer

    def settled(app: App, *arguments: Any, **options: Any) -> Consumer:  # waits for committed records
        settle(kafka, cluster.bootstrap, *filter(is_valid_name, kafka.topic_names()))  # Kafka Streams' are longer
        return consumer(app, *arguments, **options)

    monkeypatch.setattr(App, "consumer", settled)
    before = {*kafka.topic_names(), *kafka.group_names()}
    with cleaned_up_cluster(*apps):
        feed(module.app, module.data())
        getattr(module, "backfill_last_year", lambda _: 0)(module.app)
        settle(kafka, cluster.bootstrap, *module.app.plan.source_topics)
        module.app.start("caught-up").wait()
        module.show(module.app)
    shown = capsys.readouterr().out
    assert EXPECTED.get(example, "") in shown
    assert len(shown.strip().splitlines()) >= 3, shown
    assert {*kafka.topic_names(), *kafka.group_names()} <= before, "topics or groups were left behind"
