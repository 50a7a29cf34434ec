"""The positions of records, and answers for them as ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from millstream.broker import Answer, AnswerKind
from millstream.errors import BrokerError, SerdeError
from millstream.records import Record, TopicPartition

Position: TypeAlias = tuple[str, int, int]
"""Topic, partition and offset of a record."""


class Reply(NamedTuple):
    """The answer for one record."""

    kind: AnswerKind
    delay_ms: int = 0


def position_of(record: Record[Any, Any]) -> Position:
    """Return the position of a record."""
    return record.topic, record.partition, record.offset


def failed_position(error: SerdeError) -> Position:
    """Return the position of the record that an error is about."""
    try:
        return error.facts["topic"], error.facts["partition"], error.facts["offset"]
    except KeyError:
        raise BrokerError("the error is not about a record", hint="pass an error that poll has raised") from error


def position_text(position: Position) -> str:
    """Return a position as it is written in messages.

    >>> position_text(("jobs", 0, 17))
    'jobs[0]@17'
    """
    return f"{position[0]}[{position[1]}]@{position[2]}"


def answers_of(replies: Mapping[Position, Reply]) -> list[Answer]:
    """Return the answers for records, joined where equal replies have consecutive offsets."""
    answers: list[Answer] = []
    topic, partition, first, last, reply = "", -1, 0, -1, None

    def add() -> None:
        if reply is not None:
            answers.append(Answer(TopicPartition(topic, partition), first, last, reply.kind, reply.delay_ms))

    for position, next_reply in replies.items():
        if position[2] != last + 1 or next_reply != reply or position[1] != partition or position[0] != topic:
            add()
            topic, partition, first = position
            reply = next_reply
        last = position[2]
    add()
    return answers


def positions_in(answer: Answer) -> Iterator[Position]:
    """Yield the positions that an answer is about."""
    for offset in range(answer.first, answer.last + 1):
        yield answer.partition.topic, answer.partition.partition, offset
