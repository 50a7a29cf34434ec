"""Send dead letters back to the topics that their records came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from millstream.broker import Broker, Output
from millstream.errors import UnknownTopicError
from millstream.foundation.blocks import block_of
from millstream.records import TopicPartition
from millstream.views.dead_letters import DeadLetter
from millstream.views.records import at_ends, partitions_of, rounds


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a replay: how many letters went to each topic, and how many have no topic to go to."""

    sent: dict[str, int]
    kept: dict[str, int]


def replay_some(broker: Broker, letters: Iterable[DeadLetter]) -> Replay:
    """Send chosen letters back, as often as it is asked for."""
    sent: dict[str, int] = {}
    kept: dict[str, int] = {}
    for letter in letters:
        output = _output(broker, letter)
        if output is not None:
            broker.append([output])
        _count(sent if output is not None else kept, letter.topic)
    return Replay(sent=sent, kept=kept)


def unreplayed(broker: Broker, topic: str) -> dict[TopicPartition, tuple[int, int]]:
    """Return which letters of each partition were not sent back yet."""
    partitions = partitions_of(broker, (topic,), None)
    begins, ends = at_ends(broker, partitions, end=False), at_ends(broker, partitions, end=True)
    done = broker.committed(_group(topic))
    return {at: (max(begins[at], done.get(at, 0)), ends[at]) for at in partitions}


def replay_rest(broker: Broker, topic: str) -> Iterator[Replay]:
    """Send all letters back that were not yet, each once, whatever dies; yields what was done after each of them."""
    sent: dict[str, int] = {}
    kept: dict[str, int] = {}
    for at, (start, end) in unreplayed(broker, topic).items():
        producer = f"{_group(topic)}.{at.partition}"
        for letter in _between(broker, at, start, end):
            output = _output(broker, letter)
            if output is not None:
                broker.append_once(producer, letter.offset + 1, [output])
            _count(sent if output is not None else kept, letter.topic)
            yield Replay(sent=sent, kept=kept)
        broker.commit(_group(topic), {at: end})


def _between(broker: Broker, at: TopicPartition, start: int, end: int) -> Iterator[DeadLetter]:
    if start < end:
        for records in rounds(broker, {at: start}, follow=False, grow=False):
            yield from (DeadLetter.of(record) for record in records if record.offset < end)


def _output(broker: Broker, letter: DeadLetter) -> Output | None:
    """Return the record as it came, for where it came from; None if that was inside of the app."""
    try:
        partitions = broker.topic(letter.topic).partitions if letter.topic else 0
    except UnknownTopicError:
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
