"""Reading ranges: cut at both ends, small blocks merged, and no snapshot kept open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from millstream.broker import Output
from millstream.errors import BrokerError, OffsetOutOfRangeError
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import open_environment
from millstream.log import EmbeddedLog

if TYPE_CHECKING:
    from tests.log.conftest import Read, Send


def test_a_range_is_cut_at_both_edges(topic: str, send: Send, read: Read) -> None:
    send(topic, "a", "b", "c")
    send(topic, "d", "e", "f")
    assert read(topic, 0, 1, 5) == [(1, "b"), (2, "c"), (3, "d"), (4, "e")]
    assert read(topic, 0, 2, 2) == []
    assert read(topic, 0, 4, 100) == [(4, "e"), (5, "f")]


def test_small_blocks_are_merged(log: EmbeddedLog, topic: str, send: Send) -> None:
    for number in range(30):
        send(topic, str(number))
    (chunk,) = log.read(topic, 0, 5, 25)
    assert (chunk.offsets, chunk.next_offset, len(chunk.block)) == (range(5, 25), 25, 20)


def test_large_blocks_are_not_merged(log: EmbeddedLog, topic: str) -> None:
    block = block_of([None] * 5000, [b"x"] * 5000, [0] * 5000)
    for _ in range(3):
        log.append([Output(topic, 0, block)])
    chunks = list(log.read(topic, 0, 10, 14_990))
    assert [(chunk.offsets[0], len(chunk.block)) for chunk in chunks] == [(10, 4990), (5000, 5000), (10000, 4990)]


def test_chunks_outlive_the_topic(log: EmbeddedLog, topic: str, send: Send) -> None:
    send(topic, "a")
    chunks = list(log.read(topic, 0, 0, 1))
    log.delete_topic(topic)
    assert chunks[0].block.column(1).to_pylist() == [b"a"]


def test_a_view_points_into_the_map(log: EmbeddedLog, topic: str) -> None:
    block = block_of([None] * 3000, [b"x" * 10] * 3000, [0] * 3000)
    log.append([Output(topic, 0, block), Output(topic, 0, block)])
    before = pa.total_allocated_bytes()
    with log.view(topic, 0, 1, 5999) as chunks:
        seen = [(chunk.offsets[0], len(chunk.block), chunk.block.column(1)[0].as_py()) for chunk in chunks]
        assert pa.total_allocated_bytes() - before < 10_000
    assert seen == [(1, 2999, b"x" * 10), (3000, 2999, b"x" * 10)]


@pytest.mark.parametrize("start", [1, 6])
def test_deleted_or_future_offsets_are_refused(log: EmbeddedLog, topic: str, send: Send, start: int) -> None:
    send(topic, "a", "b", "c", "d", "e")
    log.delete_before(topic, 0, 2)
    with pytest.raises(OffsetOutOfRangeError, match=rf"lines.0. has no offset {start}; its offsets range from 2 to"):
        list(log.read(topic, 0, start, 10))
    with pytest.raises(OffsetOutOfRangeError) as info, log.view(topic, 0, start, 10):
        pass
    assert info.value.facts["begin"] == 2
    assert info.value.facts["end"] == 5


def test_an_unknown_partition_is_refused(log: EmbeddedLog, topic: str) -> None:
    for call in (
        lambda: log.read(topic, 2, 0, 1),
        lambda: log.view(topic, -1, 0, 1),
        lambda: log.offset_at(topic, 9, 0),
        lambda: log.delete_before(topic, 9, 0),
    ):
        with pytest.raises(BrokerError, match="has no partition"):
            call()


def test_no_snapshot_is_open_while_the_caller_processes_a_chunk(log: EmbeddedLog, topic: str) -> None:
    block = block_of([None] * 5000, [b"x"] * 5000, [0] * 5000)
    log.append([Output(topic, 0, block)] * 4)
    opened = open_environment(log._catalog.get(topic).directory)
    for _ in log.read(topic, 0, 0, 20_000):
        assert opened._readers == 0


def test_reading_continues_with_records_appended_in_the_meantime(log: EmbeddedLog, topic: str, send: Send) -> None:
    send(topic, "a")
    chunks = log.read(topic, 0, 0, 2)
    assert next(chunks).next_offset == 1
    send(topic, "b")
    assert next(chunks).offsets == range(1, 2)


def test_delete_before_moves_the_first_offset(log: EmbeddedLog, topic: str, send: Send, read: Read) -> None:
    for text in "abcd":
        send(topic, text, text * 2)
    log.delete_before(topic, 0, 3)
    log.delete_before(topic, 0, 1)
    assert read(topic) == [(3, "bb"), (4, "c"), (5, "cc"), (6, "d"), (7, "dd")]
    log.delete_before(topic, 0, 8)
    assert read(topic) == []
    assert send(topic, "e") == 8
    with pytest.raises(OffsetOutOfRangeError, match=r"no offset 10"):
        log.delete_before(topic, 0, 10)
