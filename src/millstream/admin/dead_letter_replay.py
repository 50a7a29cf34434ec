"""Send dead letters back to the topics that their records came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from millstream.broker import Broker, Output
from millstream.errors import InvalidNameError, UnknownTopicError
from millstream.foundation.blocks import block_of
from millstream.records import TopicPartition
from millstream.views.dead_letters import DeadLetter
from millstream.views.records import beginning_offsets, end_offsets, read_rounds, topic_partitions


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a replay: how many dead letters were sent to each topic, and how many have no topic."""

    sent: dict[str, int]
    kept: dict[str, int]


def replay_selected(broker: Broker, letters: Iterable[DeadLetter]) -> Replay:
    """Send dead letters back, also those that were sent before."""
    sent: dict[str, int] = {}
    kept: dict[str, int] = {}
    for letter in letters:
        output = _output(broker, letter)
        if output is not None:
            broker.append([output])
        _count(sent if output is not None else kept, letter.topic)
    return Replay(sent=sent, kept=kept)


def remaining_offsets(broker: Broker, topic: str) -> dict[TopicPartition, tuple[int, int]]:
    """Return the range of offsets in each partition that was not replayed yet."""
    partitions = topic_partitions(broker, (topic,), None)
    begins, ends = beginning_offsets(broker, partitions), end_offsets(broker, partitions)
    done = broker.committed(_group(topic))
    return {partition: (max(begins[partition], done.get(partition, 0)), ends[partition]) for partition in partitions}


def replay_remaining(broker: Broker, topic: str) -> Iterator[Replay]:
    """Send all dead letters back that were not replayed yet, each exactly once even after a crash.

    Yield the result so far after each of them.
    """
    sent: dict[str, int] = {}
    kept: dict[str, int] = {}
    for partition, (start, end) in remaining_offsets(broker, topic).items():
        producer = f"{_group(topic)}.{partition.partition}"
        for letter in _read_range(broker, partition, start, end):
            output = _output(broker, letter)
            if output is not None:
                broker.append_once(producer, letter.offset + 1, [output])
            _count(sent if output is not None else kept, letter.topic)
            yield Replay(sent=sent, kept=kept)
        broker.commit(_group(topic), {partition: end})


def _read_range(broker: Broker, partition: TopicPartition, start: int, end: int) -> Iterator[DeadLetter]:
    if start < end:
        for records in read_rounds(broker, {partition: start}, follow=False, grow=False):
            yield from (DeadLetter.of(record) for record in records if record.offset < end)


def _output(broker: Broker, letter: DeadLetter) -> Output | None:
    """Return the original record for its original topic; None if the record came from inside the app."""
    try:
        partitions = broker.topic(letter.topic).partitions if letter.topic else 0
    except (UnknownTopicError, InvalidNameError):  # anyone who can write to the topic can forge its headers
        return None
    if not 0 <= letter.origin_partition < partitions:
        return None
    record = letter.record
    block = block_of([record.key], [record.value], [record.timestamp], [record.headers])
    return Output(letter.topic, letter.origin_partition, block)


def _group(topic: str) -> str:
    return f"{topic}.replay"


def _count(counts: dict[str, int], topic: str) -> None:
    counts[topic] = counts.get(topic, 0) + 1
