"""The loop of sources: every change once, by key, in order, wherever the process dies."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from millstream.broker import TopicConfig
from millstream.config import Config
from millstream.connect.connect_file import ConnectFile, FileSource
from millstream.connect.protocols import ConnectorContext
from millstream.connect.source_journal import SourceJournal
from millstream.connect.worker import run_connect_file
from millstream.errors import TargetUnavailableError
from millstream.foundation.paths import source_dir
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.producer import Producer
from millstream.testing.connectors import MemorySource
from millstream.testing.connectors.bench import APP, Bench
from millstream.testing.connectors.memory import MemoryReader

TOPICS = ("shop.orders", "shop.customers")


def source_with(count: int, **options: Any) -> MemorySource:
    source = MemorySource(*TOPICS, partitions=3, patience=0.01, **options)
    for n in range(count):
        source.put(TOPICS[n % 2], f"k{n % 7}", n)
    return source


def values(bench: Bench) -> list[int]:
    return [int(record.value or b"") for topic in TOPICS for record in bench.records(topic)]


def test_changes_arrive_once_in_order_by_key_in_the_partition_that_a_producer_chooses(tmp_path: Path) -> None:
    bench, source = Bench(tmp_path), source_with(40, most=6)
    assert bench.run_source(source)
    assert sorted(values(bench)) == list(range(40))
    assert source.acknowledged == 40
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("produced", TopicConfig(partitions=3))
        with Producer(log) as producer:
            for n in range(7):
                producer.send("produced", n, key=f"k{n}")
    partitions = {record.key: record.partition for record in bench.records("produced")}
    for topic in TOPICS:
        by_key: dict[Any, list[int]] = {}
        for record in bench.records(topic):
            assert record.partition == partitions[record.key]
            by_key.setdefault(record.key, []).append(int(record.value or b""))
        assert all(numbers == sorted(numbers) for numbers in by_key.values())


def test_a_source_that_dies_at_any_step_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    died = 0
    for die_at in range(1, 100):
        bench, source = Bench(tmp_path / str(die_at)), source_with(20, most=8)
        has_ended = bench.run_source(source, die_at=die_at)
        died += not has_ended
        assert bench.run_source(source)
        assert sorted(values(bench)) == list(range(20)), f"died at step {die_at}: {bench.steps.passed}"
        if has_ended:
            break
    assert died > 20


def test_a_source_that_never_catches_up_can_be_stopped(tmp_path: Path) -> None:
    stopping = threading.Event()

    class Endless(MemorySource):
        """Always has another change."""

        def open(self, position: bytes | None, context: ConnectorContext, /) -> MemoryReader:
            source, topic = self, TOPICS[0]

            class Reader(MemoryReader):
                def committed(self, position: bytes) -> None:
                    super().committed(position)
                    source.put(topic, "k", 1)
                    if source.acknowledged > 3:
                        stopping.set()

            source.put(topic, "k", 1)
            return Reader(source, int(position or b"0"))

    source = Endless(*TOPICS)
    file = ConnectFile(
        name="endless",
        broker=None,
        data_dir=None,
        config=Config(),
        sources={"source": FileSource(source, None, source.topics())},
        sinks={},
    )
    run_connect_file(file, file.settings(tmp_path, None), "caught-up", stopping)
    assert source.acknowledged > 3
    close_environments(tmp_path)


def test_a_reset_of_the_app_keeps_the_position(tmp_path: Path) -> None:
    bench, source = Bench(tmp_path), source_with(5)
    bench.run_source(source)
    bench.reset()
    source.put(TOPICS[0], "k", 5)
    bench.run_source(source)
    assert sorted(values(bench)) == list(range(6))
    journal = SourceJournal(source_dir(tmp_path, APP, "source"))
    assert (journal.read().position, journal.read().records) == (b"6", 6)
    close_environments(tmp_path)


class Broken(MemorySource):
    """Raises what its driver raises."""

    def open(self, _position: bytes | None, _context: Any, /) -> MemoryReader:
        raise RuntimeError("no route to host")


def test_exceptions_of_a_driver_are_outages_with_the_name_of_the_source(tmp_path: Path) -> None:
    with pytest.raises(TargetUnavailableError, match="source 'source' failed: RuntimeError: no route to host"):
        Bench(tmp_path).run_source(Broken(*TOPICS))
