"""The dead letters of a share group: rejected records, and those that were delivered too often.

A letter is written before its record is archived, so that a crash in between loses nothing; the broker then refuses to
append it again. Where locks can be renewed, a letter is written only while its record is locked: otherwise another
member may have accepted it.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from millstream.broker import Acquired, Output, TopicConfig
from millstream.errors import LockLostError, TopicExistsError
from millstream.foundation.blocks import block_of, rows_of
from millstream.foundation.error_headers import error_headers
from millstream.foundation.names import check_name
from millstream.queues.positions import Position, Reply, answers_of, positions_in
from millstream.records import Headers

if TYPE_CHECKING:
    from millstream.broker import Broker, ShareMember


class RejectedRecord(NamedTuple):
    """A record that becomes a dead letter, in the records it was acquired with, and why."""

    acquired: Acquired
    error: BaseException


class DeadLetters:
    """The dead letters that a consumer has not written yet."""

    def __init__(self, broker: Broker, group: str, topic: str | None, *, can_renew: bool) -> None:
        self.topic = check_name("topic", topic or f"{group}.dead-letters")
        self._broker = broker
        self._group = group
        self._can_renew = can_renew
        self._has_topic = False
        self._failures: dict[Position, RejectedRecord] = {}

    def add(self, position: Position, failure: RejectedRecord) -> None:
        """Write a dead letter with the next ``publish``."""
        self._failures[position] = failure

    def drop(self, position: Position) -> None:
        """Do not write the dead letter of a record that has got another answer."""
        self._failures.pop(position, None)

    def publish(self, member: ShareMember) -> None:
        """Append the dead letters of records that are still locked; the answers for the others will be refused."""
        if self._failures and self._can_renew:
            self._drop_lost(member)
        if not self._failures:
            return
        if not self._has_topic:
            with suppress(TopicExistsError):
                self._broker.create_topic(self.topic, TopicConfig(partitions=1))
            self._has_topic = True
        member.publish(
            {
                (failure.acquired.partition, position[2]): self._letter(position, failure)
                for position, failure in self._failures.items()
            }
        )
        self._failures = {}

    def _drop_lost(self, member: ShareMember) -> None:
        for refusal in member.answer(answers_of(dict.fromkeys(self._failures, Reply("renew")))):
            if isinstance(refusal.error, LockLostError):
                for position in positions_in(refusal.answer):
                    self.drop(position)

    def _letter(self, position: Position, failure: RejectedRecord) -> Output:
        chunk = failure.acquired.chunk
        row = bisect_left(chunk.offsets, position[2])
        raw = rows_of(chunk.block.slice(row, 1))
        headers: Headers = raw.headers[0] if raw.headers is not None else ()
        reasons = error_headers(failure.error, *position, stage=self._group, node="share group")
        letter = block_of(raw.keys, raw.values, raw.timestamps, [(*headers, *reasons, *self._kafka_headers(position))])
        return Output(self.topic, 0, letter)

    def _kafka_headers(self, position: Position) -> Headers:
        """Return the headers that Kafka's own share groups write (KIP-1191)."""
        topic, partition, offset = position
        facts = {"topic": topic, "partition": str(partition), "offset": str(offset), "group": self._group}
        return tuple((f"__dlq.errors.{name}", text.encode()) for name, text in facts.items())
