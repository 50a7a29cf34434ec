"""A new table is filled from the past of a Kafka topic."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from millstream import App, Config
from millstream.foundation.storage import close_environments
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def version(number: int, cluster: Cluster, path: Path, name: str) -> App:
    app = App(name, broker=cluster.url, data_dir=path, config=Config(partitions=2, max_batch_records=100))
    words = app.stream(f"{name}.words", value=str)
    words.group_by(lambda word: word).count(name="seen")
    if number == 2:
        words.group_by(lambda word: len(word)).collect_set(name="by_length")
        words.group_by(lambda word: word).last(name="last")  # on the edge and in the stage of the existing table
    return app


def test_a_table_is_filled_from_kafka(cluster: Cluster, kafka: KafkaBroker, tmp_path: Path, name: str) -> None:
    old = version(1, cluster, tmp_path, name)
    old.run("caught-up")
    words = [f"{number % 13}" * (1 + number % 3) for number in range(300)]
    with old.producer(value=str) as producer:
        for word in words:
            producer.send(f"{name}.words", word)
    old.run("caught-up")
    new = version(2, cluster, tmp_path, name)
    new.run("caught-up", fill=["by_length", "last"])
    with new.producer(value=str) as sender:
        sender.send(f"{name}.words", "late!")
    new.run("caught-up")
    expected: dict[int, set[str]] = {}
    for word in (*words, "late!"):
        expected.setdefault(len(word), set()).add(word)
    assert {int(key): set(row) for key, row in new.tables["by_length"].items()} == expected
    assert sum(dict(new.tables["seen"].items()).values()) == 301
    assert f"{name}.fill" not in kafka.group_names()
    close_environments(tmp_path)
    shutil.rmtree(tmp_path)  # the host is lost: changelogs have the filled rows too
    new.run("caught-up")
    assert {int(key): set(row) for key, row in new.tables["by_length"].items()} == expected
    assert {key for key, _ in new.tables["last"].items()} == {*words, "late!"}
    assert sum(dict(new.tables["seen"].items()).values()) == 301
    close_environments(tmp_path)
