"""The share consumer: takes single records from topics as jobs from a queue, and answers for each of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias

from millstream.broker import Acquired, Answer, Refusal, ShareMember, ShareSettings, SupportsSharing
from millstream.durations import Duration, milliseconds
from millstream.errors import BrokerError, DefinitionError, MillstreamError, SerdeError
from millstream.foundation.names import check_name
from millstream.foundation.record_decoding import RecordDecoder
from millstream.foundation.type_variables import TextKey, Value
from millstream.queues.dead_letters import DeadLetters
from millstream.queues.ledger import ACCEPT, RELEASE, RENEW, UNREAD, Ledger
from millstream.queues.positions import (
    Position,
    Reply,
    answers_of,
    failed_position,
    position_of,
    position_text,
    positions_in,
)
from millstream.queues.worker import Reject
from millstream.records import Record, TopicPartition
from millstream.serdes import JSON, TEXT, SerdeLike, serde_for
from millstream.windowed_serdes import reading_serde

if TYPE_CHECKING:
    from millstream.broker import Broker

Acknowledge: TypeAlias = Literal["explicit", "implicit"]
Start: TypeAlias = Literal["earliest", "latest"] | Duration
OnAcknowledged: TypeAlias = Callable[[TopicPartition, Sequence[int], MillstreamError | None], None]
"""Called with the offsets of a partition that were answered for, and with the error if the answer was refused."""

_log = logging.getLogger(__name__)
_ITERATION_RECORDS = 100  # how many records an iteration acquires at a time
_MAX_DELAY_MS = 7 * 86_400_000


class ShareConsumer(Generic[TextKey, Value]):
    """Takes records of topics as jobs: each goes to one member of the group at a time, until it is accepted.

    ``poll`` locks records for ``lock``; ``accept`` ends a job, ``release`` returns it, ``reject`` makes it a dead
    letter, and so does a job that was delivered ``max_deliveries`` times. Answers are sent with the next ``poll``,
    ``commit`` or ``close``; an answer that comes after the lock has ended is refused with a ``LockLostError``. In a
    ``for`` loop, and with ``acknowledge="implicit"``, what was not answered is accepted when more is asked for. A
    group begins at ``start``: ``"latest"``, ``"earliest"``, or a duration ago. Not thread-safe.

    >>> from tempfile import mkdtemp
    >>> from millstream import App
    >>> app = App("mail", data_dir=mkdtemp())
    >>> with app.share_consumer("mailers", topics="jobs", start="earliest") as queue:
    ...     queue.poll(timeout=0)
    []
    """

    def __init__(
        self,
        broker: Broker,
        group: str,
        *,
        topics: str | Sequence[str] = (),
        key: SerdeLike[TextKey] = None,
        value: SerdeLike[Value] = None,
        acknowledge: Acknowledge = "explicit",
        lock: Duration = "30 s",
        max_deliveries: int = 5,
        start: Start = "latest",
        timeout: Duration | float | None = None,
        dead_letter_topic: str | None = None,
        on_decode_error: Literal["dead_letter", "fail"] = "dead_letter",
        on_acknowledged: OnAcknowledged | None = None,
    ) -> None:
        if not isinstance(broker, SupportsSharing):
            raise DefinitionError(f"{broker.url!r} has no share groups", hint="use a consumer")
        self._settings = _settings(lock, max_deliveries, start)
        self._can_renew = broker.can_renew_locks
        self._group = check_name("group", group)
        self._decoding = RecordDecoder(reading_serde(key) or TEXT, serde_for(value) or JSON)
        self._is_implicit = acknowledge == "implicit"
        self._timeout = None if timeout is None else _seconds(timeout)
        self._fails_on_decode_error = on_decode_error == "fail"
        self._on_acknowledged = on_acknowledged
        self._is_in_callback = False
        self._topics: tuple[str, ...] = ()
        self._ahead: list[Record[TextKey, Value]] = []
        self._locked_at = float("-inf")
        self._ledger = Ledger(DeadLetters(broker, group, dead_letter_topic, can_renew=self._can_renew))
        self._member: ShareMember | None = broker.join_share_group(self._group, self._settings)
        try:
            self.subscribe(topics)
        except BaseException:
            self._member.leave(())
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Topics

    def subscribe(self, topics: str | Sequence[str]) -> None:
        """Take records of these topics from now on; a topic may be created later."""
        self._topics = (topics,) if isinstance(topics, str) else tuple(topics)
        self._open_member().subscribe(self._topics)

    def unsubscribe(self) -> None:
        """Take no more records."""
        self.subscribe(())

    @property
    def subscription(self) -> tuple[str, ...]:
        """The topics that records are taken from."""
        return self._topics

    # Records

    def poll(self, timeout: Duration | float = "1 s", max_records: int = 500) -> list[Record[TextKey, Value]]:
        """Send the answers for the last records and return up to ``max_records`` others, or none in time."""
        self._check_usable()
        if max_records < 1:
            raise DefinitionError(f"max_records is {max_records!r}", hint="it must be at least 1")
        if self._is_implicit and not self._ahead:
            return self._take(_seconds(timeout), max_records, accepts=True)
        ahead = list(map(position_of, self._ahead))
        unanswered = None if self._is_implicit else self._ledger.unanswered(ahead)
        if unanswered is not None:
            raise BrokerError(
                f"{position_text(unanswered)} has no answer yet",
                hint="accept, release or reject every record before the next poll, or set acknowledge='implicit'",
            )
        if self._ahead:
            taken, self._ahead = self._ahead[:max_records], self._ahead[max_records:]
            return taken
        return self._take(_seconds(timeout), max_records, accepts=False)

    def __iter__(self) -> Iterator[Record[TextKey, Value]]:
        last = monotonic()
        while True:
            self._check_usable()
            left = 1.0 if self._timeout is None else last + self._timeout - monotonic()
            if not self._ahead:  # otherwise an earlier loop was left
                self._ahead = self._take(max(0.0, min(left, 1.0)), _ITERATION_RECORDS, accepts=True)
            if not self._ahead and self._timeout is not None and monotonic() - last >= self._timeout:
                return
            while self._ahead:
                self._renew_if_due()
                if self._ahead:
                    record = self._ahead.pop(0)
                    yield record
                    self._ledger.reply_if_unanswered(position_of(record), ACCEPT)
                    last = monotonic()

    def delivery_count(self, record: Record[Any, Any]) -> int:
        """Return how many times a record was delivered, this delivery included."""
        return self._ledger.acquired(position_of(record)).deliveries

    # Answers

    def accept(self, record: Record[Any, Any]) -> None:
        """Say that a record is done."""
        self._reply(position_of(record), ACCEPT)

    def release(
        self, record: Record[Any, Any], *, after: Duration | None = None, error: BaseException | None = None
    ) -> None:
        """Return a record to the group, to be delivered again to any member, not before ``after`` has passed.

        If it was delivered ``max_deliveries`` times, it becomes a dead letter, with ``error`` as its reason.
        """
        delay_ms = 0 if after is None else milliseconds(after)
        if delay_ms and not self._can_renew:
            raise DefinitionError(f"Kafka cannot delay a record by {after!r}", hint="leave out after")
        if not 0 <= delay_ms <= _MAX_DELAY_MS:
            raise DefinitionError(f"after is {after!r}", hint="use a duration from 0 to 7 days")
        position = position_of(record)
        deliveries = self._ledger.acquired(position).deliveries
        if deliveries >= self._settings.max_deliveries:
            self._check_explicit(position)
            self._ledger.reject(position, error or Reject(f"released after {deliveries} deliveries"))
        else:
            self._reply(position, Reply("release", delay_ms))

    def reject(self, record: Record[Any, Any] | SerdeError, reason: str | BaseException = "rejected") -> None:
        """Make a record a dead letter; also one whose ``SerdeError`` was raised by ``poll``."""
        position = failed_position(record) if isinstance(record, SerdeError) else position_of(record)
        error = record if isinstance(record, SerdeError) else reason
        self._check_explicit(position)
        self._ledger.reject(position, error if isinstance(error, BaseException) else Reject(error))

    def renew(self, record: Record[Any, Any]) -> None:
        """Lock a record for as long again, from now on; raises a ``LockLostError`` if it is no longer locked."""
        if not self._can_renew:
            raise DefinitionError("Kafka's client cannot renew a lock", hint="use a longer lock=")
        position = position_of(record)
        self._ledger.acquired(position)
        if self._ledger.is_answered(position):
            raise BrokerError(f"{position_text(position)} already has an answer", hint="renew it before you answer")
        self._raise_first(self._open_member().answer(answers_of({position: RENEW})))

    def commit(self) -> dict[TopicPartition, int]:
        """Send the answers now and return their number by partition; they then survive a crash of the machine.

        Raises a ``LockLostError`` if one was refused; the others count.
        """
        self._check_usable()
        member = self._open_member()
        accepts = self._is_implicit and not self._ahead
        answers = self._ledger.accept_all(member) if accepts else self._ledger.take_answers(member)
        refused = member.answer(answers)
        self._report(answers, refused)
        if self._on_acknowledged is None:
            self._raise_first(refused)
        counts: dict[TopicPartition, int] = {}
        for answer in answers:
            counts[answer.partition] = counts.get(answer.partition, 0) + answer.last - answer.first + 1
        return counts

    def close(self) -> None:
        """Send the answers, release all other records and leave the group."""
        if self._member is None:
            return
        self._check_not_in_callback()
        for record in self._ahead:
            self._ledger.reply(position_of(record), UNREAD)
        member, self._member = self._member, None
        answers: list[Answer] = []
        try:
            answers = self._ledger.take_answers(member)
        finally:
            refused = member.leave(answers)
        self._report(answers, refused)

    # How it works

    def _take(self, timeout: float, max_records: int, *, accepts: bool) -> list[Record[TextKey, Value]]:
        """Send answers and return records; ``accepts`` what has no answer, and then a refused answer is no error."""
        deadline = monotonic() + timeout
        member = self._open_member()
        while True:
            answers = self._ledger.accept_all(member) if accepts else self._ledger.take_answers(member)
            acquired, refused = member.poll(answers, max_records, max(0.0, deadline - monotonic()))
            self._report(answers, refused)
            if not accepts and self._on_acknowledged is None:
                self._raise_first(refused)
            self._locked_at = monotonic()
            received = [self._receive(batch) for batch in acquired]
            records = [record for decoded, _ in received for record in decoded]
            if records or (not acquired and not refused):
                return records
            for _, failure in received:
                if failure is not None:
                    raise failure

    def _receive(self, acquired: Acquired) -> tuple[list[Record[TextKey, Value]], SerdeError | None]:
        """Return the records that can be decoded; the others, and exhausted ones, become dead letters.

        With ``on_decode_error="fail"``, return those up to the first that cannot be decoded, and its error.
        """
        topic, partition, offsets = acquired.partition.topic, acquired.partition.partition, acquired.chunk.offsets
        self._ledger.hold(acquired)
        if acquired.deliveries > self._settings.max_deliveries:
            error = Reject(f"delivered {acquired.deliveries - 1} times without an answer")
            for offset in offsets:
                self._ledger.reject((topic, partition, offset), error)
            return [], None
        records: list[Record[TextKey, Value]] = []
        row = 0
        while True:
            rest = acquired.chunk.block.slice(row)
            decoded, failure = self._decoding.records(acquired.partition, rest, offsets[row:])
            records += decoded
            row += len(decoded) + 1
            if failure is None:
                return records, None
            if self._fails_on_decode_error:
                self._ledger.reply((topic, partition, offsets[row - 1]), RELEASE)
                for offset in offsets[row:]:
                    self._ledger.reply((topic, partition, offset), UNREAD)
                return records, failure
            self._ledger.reject((topic, partition, offsets[row - 1]), failure)

    def _reply(self, position: Position, reply: Reply) -> None:
        self._check_explicit(position)
        self._ledger.reply(position, reply)

    def _check_explicit(self, position: Position) -> None:
        self._ledger.acquired(position)
        if self._is_implicit:
            raise BrokerError(
                f"{position_text(position)} is accepted by the next poll",
                hint="to answer yourself, set acknowledge='explicit'",
            )

    def _renew_if_due(self) -> None:
        """Send the answers of a loop, and keep the locks of records that it has not come to yet."""
        if self._can_renew and (monotonic() - self._locked_at) * 2000 > self._settings.lock_ms:
            self._locked_at = monotonic()
            member, ahead = self._open_member(), list(map(position_of, self._ahead))
            self._ledger.reply_to_rest(ACCEPT, ahead)
            answers = self._ledger.take_answers(member)
            refused = member.answer([*answers, *answers_of(dict.fromkeys(ahead, RENEW))])
            lost = {position for refusal in refused for position in positions_in(refusal.answer)}
            self._ahead = [record for record in self._ahead if position_of(record) not in lost]
            self._ledger.forget(lost.intersection(ahead))
            self._report(answers, refused)

    def _report(self, answers: Sequence[Answer], refused: Sequence[Refusal]) -> None:
        """Call the user's function, or log what was refused."""
        if self._on_acknowledged is None:
            for refusal in refused:
                _log.warning("share_consumer.answer_refused group=%s reason=%s", self._group, refusal.error)
            return
        lost = {position: refusal.error for refusal in refused for position in positions_in(refusal.answer)}
        results: dict[tuple[TopicPartition, MillstreamError | None], list[int]] = {}
        for answer in answers:
            for position in positions_in(answer):
                results.setdefault((answer.partition, lost.get(position)), []).append(position[2])
        self._is_in_callback = True
        try:
            for (partition, error), offsets in results.items():
                try:
                    self._on_acknowledged(partition, offsets, error)
                except Exception:
                    _log.exception("share_consumer.callback_failed group=%s", self._group)
        finally:
            self._is_in_callback = False

    def _raise_first(self, refused: Sequence[Refusal]) -> None:
        for refusal in refused:
            raise refusal.error

    def _check_usable(self) -> None:
        self._open_member()
        self._check_not_in_callback()
        if not self._topics:
            raise BrokerError("the consumer reads no topic", hint="subscribe to one first")

    def _check_not_in_callback(self) -> None:
        if self._is_in_callback:
            raise BrokerError("on_acknowledged cannot use its consumer", hint="note what to do, and do it after poll")

    def _open_member(self) -> ShareMember:
        if self._member is None:
            raise BrokerError("the consumer is closed", hint="create another one")
        return self._member


def _settings(lock: Duration, max_deliveries: int, start: Start) -> ShareSettings:
    lock_ms = milliseconds(lock)
    if lock_ms < 1:
        raise DefinitionError(f"lock is {lock!r}", hint="use a duration such as '30 s'")
    if max_deliveries < 1:
        raise DefinitionError(f"max_deliveries is {max_deliveries!r}", hint="it must be at least 1")
    first: Literal["earliest", "latest"] | int
    match start:
        case "earliest":
            first = "earliest"
        case "latest":
            first = "latest"
        case _:
            first = milliseconds(start)
            if first < 0:
                raise DefinitionError(f"start is {start!r}", hint="use 'latest', 'earliest' or a duration ago")
    return ShareSettings(lock_ms=lock_ms, max_deliveries=max_deliveries, start=first)


def _seconds(wait: Duration | float) -> float:
    return float(wait) if isinstance(wait, int | float) else milliseconds(wait) / 1000
