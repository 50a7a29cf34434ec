"""Compaction keeps the last value per key at its offset."""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING

import pytest

from millstream.broker import TopicConfig
from millstream.log import EmbeddedLog, merging
from millstream.log import compaction as compacting

if TYPE_CHECKING:
    from tests.log.conftest import Read, Send

DAY = 86_400_000


@pytest.fixture
def table(log: EmbeddedLog) -> str:
    log.create_topic("table", TopicConfig(partitions=1, compact=True, tombstone_retention_ms=DAY))
    return "table"


def test_the_last_value_is_kept_at_its_offset(log: EmbeddedLog, table: str, send: Send, read: Read) -> None:
    send(table, "a:1", "b:1", "a:2")
    send(table, "c:1", "a:3")
    log.clean(table)
    assert read(table) == [(1, "1"), (3, "1"), (4, "3")]
    assert read(table, start=2, end=4) == [(3, "1")]
    assert log.offsets(table)[0].begin == 0
    assert send(table, "d:1") == 5


def test_compaction_continues_where_it_stopped(log: EmbeddedLog, table: str, send: Send, read: Read) -> None:
    for value in range(5):
        send(table, f"a:{value}", f"{value}:x")
        log.clean(table)
    assert [value for _, value in read(table)] == ["x"] * 4 + ["4", "x"]


def test_tombstones_are_kept_for_their_retention_time(log: EmbeddedLog, table: str, send: Send, read: Read) -> None:
    now = time_ns() // 1_000_000
    send(table, "a:1", "b:1")
    send(table, "a:")
    log.clean(table, now=now)
    assert read(table) == [(1, "1"), (2, "")]
    log.clean(table, now=now + 2 * DAY)
    assert read(table) == [(1, "1")]


def test_a_chunk_ends_at_the_end_of_the_requested_range(log: EmbeddedLog, table: str, send: Send) -> None:
    send(table, "a:1", "a:2", "a:3")
    send(table, "b:1")
    log.clean(table)
    (chunk,) = log.read(table, 0, 0, 3)
    assert (list(chunk.offsets), chunk.next_offset) == ([2], 3)


def test_all_records_can_be_removed(log: EmbeddedLog, table: str, send: Send, read: Read) -> None:
    send(table, "a:1", "a:")
    log.clean(table, now=10**15)
    assert read(table) == []
    assert (log.offsets(table)[0].end, log.topic(table).bytes) == (2, (0,))
    assert log.offset_at(table, 0, 0) is None
    assert log.timestamp_at(table, 0, 0, 2) is None


def test_compaction_merges_small_blobs(log: EmbeddedLog, table: str, send: Send) -> None:
    for number in range(20):
        send(table, f"{number % 7}:{number}")
    log.clean(table)
    with log._catalog.get(table).snapshot() as snapshot:
        (span,) = snapshot.spans(0, 0)
    assert (span.records, span.base, span.next_offset) == (7, 0, 20)


def test_compacted_blobs_are_not_rewritten(
    log: EmbeddedLog, table: str, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(table, "a:1", "a:2")
    log.clean(table)
    monkeypatch.setattr(compacting, "replace_run", pytest.fail)
    log.clean(table)
    assert [offsets.end for offsets in log.offsets(table)] == [2]


def test_a_crash_between_two_blobs_never_restores_a_deleted_key(
    log: EmbeddedLog, table: str, send: Send, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(table, "a:1")
    send(table, "a:")
    monkeypatch.setattr(merging, "ENOUGH_RECORDS", 1)
    done: list[None] = []
    rewrite = compacting._rewrite

    def rewrite_once(*args: object, **rest: object) -> None:
        if done:
            raise KeyboardInterrupt
        done.append(rewrite(*args, **rest))  # type: ignore[arg-type]

    monkeypatch.setattr(compacting, "_rewrite", rewrite_once)
    with pytest.raises(KeyboardInterrupt):
        log.clean(table, now=10**15)
    assert read(table) == [(1, "")]
    monkeypatch.setattr(compacting, "_rewrite", rewrite)
    log.clean(table, now=10**15)
    assert read(table) == []


def test_records_without_a_key_from_before_compaction_are_kept(
    log: EmbeddedLog, topic: str, send: Send, read: Read
) -> None:
    send(topic, "x", "y", "a:1", "a:2")
    log.alter_topic(topic, compact=True)
    log.clean(topic)
    assert [value for _, value in read(topic)] == ["x", "y", "2"]


def test_few_new_records_do_not_start_compaction_of_a_large_table(log: EmbeddedLog, table: str, send: Send) -> None:
    send(table, *[f"{number}:{'x' * 100}" for number in range(100)])
    stored = log._catalog.get(table)
    assert compacting.needs_compaction(stored, 0)
    log.clean(table)
    assert not compacting.needs_compaction(stored, 0)
    send(table, "1:y")
    assert not compacting.needs_compaction(stored, 0)
