"""Appending: dense offsets, atomic per topic, and exactly once with a sequence."""

from __future__ import annotations

from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from millstream.broker import Output, TopicConfig
from millstream.errors import BrokerError, DefinitionError, RecordTooLargeError, UnknownTopicError
from millstream.foundation.blocks import SCHEMA, block_of, to_buffer
from millstream.log import EmbeddedLog

if TYPE_CHECKING:
    from tests.log.conftest import Read, Send


def test_offsets_are_dense_and_in_order(topic: str, send: Send, read: Read) -> None:
    assert [send(topic, "a", "b"), send(topic, "c"), send(topic, "d", partition=1)] == [0, 2, 0]
    assert read(topic) == [(0, "a"), (1, "b"), (2, "c")]


def test_outputs_of_one_call_can_mix_topics_and_partitions(log: EmbeddedLog, topic: str, read: Read) -> None:
    log.create_topic("other", TopicConfig(partitions=1))
    block = block_of([None], [b"x"], [0])
    outputs = [Output(topic, 1, block), Output("other", 0, block), Output(topic, 1, block), Output(topic, 0, block)]
    assert log.append(outputs) == [0, 0, 1, 0]


def test_an_empty_block_uses_no_offset(log: EmbeddedLog, topic: str, send: Send) -> None:
    assert log.append([Output(topic, 0, block_of([], [], []))]) == [0]
    assert send(topic, "a") == 0


def test_a_bad_output_appends_nothing_to_its_topic(log: EmbeddedLog, topic: str) -> None:
    good = Output(topic, 0, block_of([None], [b"x"], [0]))
    with pytest.raises(BrokerError, match=r"topic 'lines' has no partition 7; it has 2"):
        log.append([good, Output(topic, 7, good.block)])
    assert [offsets.end for offsets in log.offsets(topic)] == [0, 0]


def test_append_to_an_unknown_topic_is_refused(log: EmbeddedLog) -> None:
    with pytest.raises(UnknownTopicError):
        log.append([Output("nowhere", 0, block_of([None], [b"x"], [0]))])


def test_a_record_over_the_size_limit_is_refused(log: EmbeddedLog) -> None:
    log.create_topic("small", TopicConfig(partitions=1, max_record_bytes=100))
    values = [b"x" * 50] * 10
    log.append([Output("small", 0, block_of([None] * 10, values, [0] * 10))])
    values[3] = b"x" * 101
    with pytest.raises(RecordTooLargeError, match=r"a record of 102 bytes .* 'small', which allows up to 100") as info:
        log.append([Output("small", 0, block_of([b"k"] * 10, values, [0] * 10))])
    assert info.value.facts == {"topic": "small", "size": 102, "limit": 100}


def test_append_timestamps_replace_those_of_the_records(log: EmbeddedLog) -> None:
    log.create_topic("stamped", TopicConfig(partitions=1, timestamps="append"))
    before = time_ns() // 1_000_000
    log.append([Output("stamped", 0, block_of([None] * 2, [b"a", b"b"], [1, 2]))])
    (chunk,) = log.read("stamped", 0, 0, 2)
    times = chunk.block.column(2).to_pylist()
    assert before <= times[0] == times[1] <= time_ns() // 1_000_000
    assert log.offset_at("stamped", 0, before) == 0


def test_a_block_that_is_encoded_already_is_stored_as_it_is_unless_its_timestamps_change(log: EmbeddedLog) -> None:
    log.create_topic("kept", TopicConfig(partitions=1))
    log.create_topic("stamped", TopicConfig(partitions=1, timestamps="append"))
    block, other = block_of([b"k"], [b"a"], [1]), block_of([b"k"], [b"b"], [1])
    log.append([Output("kept", 0, block, to_buffer(other)), Output("stamped", 0, block, to_buffer(other))])
    (kept,), (stamped,) = log.read("kept", 0, 0, 1), log.read("stamped", 0, 0, 1)
    assert kept.block.equals(other)
    assert stamped.block.column(1).to_pylist() == [b"a"]
    assert stamped.block.column(2).to_pylist() != [1]


def test_a_compacted_topic_refuses_records_without_a_key(log: EmbeddedLog) -> None:
    log.create_topic("table", TopicConfig(partitions=1, compact=True))
    with pytest.raises(BrokerError, match="without a key cannot be written to the compacted topic 'table'"):
        log.append([Output("table", 0, block_of([b"k", None], [b"a", b"b"], [0, 0]))])


def test_a_block_with_another_schema_is_cast_or_refused(log: EmbeddedLog, topic: str, read: Read) -> None:
    block = block_of([None], [b"x"], [0])
    reordered = pa.RecordBatch.from_arrays([*block.columns[::-1]], names=SCHEMA.names[::-1])
    log.append([Output(topic, 0, reordered)])
    assert read(topic) == [(0, "x")]
    with pytest.raises(DefinitionError, match=r"columns \['key', 'value'\]"):
        log.append([Output(topic, 0, block.select(["key", "value"]))])


def test_a_sequence_is_stored_once(log: EmbeddedLog, topic: str, read: Read) -> None:
    for sequence, text in [(5, b"a"), (5, b"a"), (4, b"older"), (6, b"b"), (6, b"b")]:
        log.append_once("loader", sequence, [Output(topic, 0, block_of([None], [text], [0]))])
    assert read(topic) == [(0, "a"), (1, "b")]


def test_the_sequence_of_each_producer_is_stored_once(log: EmbeddedLog, topic: str, read: Read) -> None:
    def out(text: bytes, partition: int = 0) -> Output:
        return Output(topic, partition, block_of([None], [text], [0]))

    log.append_once("p", 1, [out(b"p1")])
    log.append_together(1, {"p": [out(b"p1"), out(b"p1", 1)], "q": [out(b"q1"), out(b"q1 too")]})
    log.append_together(1, {"q": [out(b"q1")]})
    assert read(topic) == [(0, "p1"), (1, "q1"), (2, "q1 too")]
    assert read(topic, partition=1) == [(0, "p1")]


def test_sequences_are_per_partition_and_producer(log: EmbeddedLog, topic: str, read: Read) -> None:
    block = block_of([None], [b"x"], [0])
    log.append_once("p", 1, [Output(topic, 0, block)])
    log.append_once("p", 1, [Output(topic, 0, block), Output(topic, 1, block)])
    log.append_once("q", 1, [Output(topic, 0, block)])
    log.append_once("q" * 1000, 1, [Output(topic, 0, block)])
    log.append_once("q" * 1000, 1, [Output(topic, 0, block)])
    assert [offsets.end for offsets in log.offsets(topic)] == [3, 1]


def test_several_blocks_for_a_partition_share_a_sequence(log: EmbeddedLog, topic: str, read: Read) -> None:
    outputs = [Output(topic, 0, block_of([None], [text], [0])) for text in (b"a", b"b")]
    log.append_once("p", 1, outputs)
    log.append_once("p", 1, outputs)
    assert read(topic) == [(0, "a"), (1, "b")]


@pytest.mark.parametrize("acks", ["none", "written", "synced"])
def test_every_acks_setting_appends_with_durability_os(tmp_path: Path, acks: str) -> None:
    with EmbeddedLog(tmp_path, durability="os") as log:
        log.create_topic("t", TopicConfig(partitions=1))
        log.append([Output("t", 0, block_of([None], [b"x"], [0]))], acks=acks)  # type: ignore[arg-type]
    with EmbeddedLog(tmp_path) as log:
        assert log.offsets("t")[0].end == 1


def test_headers_round_trip(log: EmbeddedLog, topic: str) -> None:
    log.append([Output(topic, 0, block_of([None], [b"x"], [0], [(("trace", b"1"), ("trace", None))]))])
    (chunk,) = log.read(topic, 0, 0, 1)
    from millstream.foundation.blocks import headers_of

    assert headers_of(chunk.block) == [(("trace", b"1"), ("trace", None))]
