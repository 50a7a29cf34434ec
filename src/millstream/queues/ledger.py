"""The records that a consumer holds, and its answers for them that are not sent yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import repeat

from millstream.broker import Acquired, Answer, ShareMember
from millstream.errors import BrokerError
from millstream.queues.dead_letters import DeadLetters, RejectedRecord
from millstream.queues.positions import Position, Reply, answers_of, position_text

ACCEPT, RELEASE, UNREAD, RENEW = Reply("accept"), Reply("release"), Reply("unread"), Reply("renew")
_REJECT = Reply("reject")


class Ledger:
    """The records that a consumer holds; the last answer for a record counts."""

    def __init__(self, letters: DeadLetters) -> None:
        self._letters = letters
        self._new: list[Acquired] = []
        """Records that are not in ``_index`` yet; most are accepted together and never get there."""
        self._index: dict[Position, Acquired] = {}
        self._replies: dict[Position, Reply] = {}

    def hold(self, acquired: Acquired) -> None:
        """Add records that were just acquired."""
        self._new.append(acquired)

    @property
    def _held(self) -> dict[Position, Acquired]:
        for acquired in self._new:
            topic, partition = acquired.partition.topic, acquired.partition.partition
            positions = zip(repeat(topic), repeat(partition), acquired.chunk.offsets, strict=False)
            self._index.update(dict.fromkeys(positions, acquired))
        self._new.clear()
        return self._index

    def acquired(self, position: Position) -> Acquired:
        """Return the records that a record was acquired with."""
        acquired = self._held.get(position)
        if acquired is None:
            raise BrokerError(
                f"{position_text(position)} is not held by this consumer",
                hint="answer for records of the last poll only",
            )
        return acquired

    def is_answered(self, position: Position) -> bool:
        return position in self._replies

    def unanswered(self, ahead: Collection[Position]) -> Position | None:
        """Return a record that was returned and has no answer; ``ahead`` were not returned yet."""
        if not self._new and len(self._replies) + len(ahead) == len(self._held):
            return None
        return next(iter(self._held.keys() - self._replies.keys() - set(ahead)), None)

    def reply(self, position: Position, reply: Reply) -> None:
        """Answer for a record."""
        self.acquired(position)
        self._replies[position] = reply
        self._letters.drop(position)

    def reply_if_unanswered(self, position: Position, reply: Reply) -> None:
        """Answer for a record that is held and has no answer."""
        if position in self._held:
            self._replies.setdefault(position, reply)

    def reject(self, position: Position, error: BaseException) -> None:
        """Make a record a dead letter."""
        self._letters.add(position, RejectedRecord(self.acquired(position), error))
        self._replies[position] = _REJECT

    def reply_to_rest(self, reply: Reply, ahead: Iterable[Position] = ()) -> None:
        """Answer for all records without an answer, except those ``ahead``."""
        replies = {**dict.fromkeys(self._held, reply), **self._replies}
        for position in ahead:
            replies.pop(position, None)
        self._replies = replies

    def forget(self, positions: Iterable[Position]) -> None:
        """Drop records whose lock was lost."""
        for position in positions:
            self._held.pop(position, None)
            self._replies.pop(position, None)
            self._letters.drop(position)

    def accept_all(self, member: ShareMember) -> list[Answer]:
        """Accept all records without an answer, and return all answers."""
        if self._index:
            self.reply_to_rest(ACCEPT)
            return self.take_answers(member)
        answers = [answer for acquired in self._new for answer in _acceptance(acquired)]
        self._new.clear()
        return answers

    def take_answers(self, member: ShareMember) -> list[Answer]:
        """Publish dead letters, then return the answers; their records are no longer held."""
        self._letters.publish(member)
        replies, self._replies = self._replies, {}
        if replies:
            held = self._held
            for position in replies:
                del held[position]
        return answers_of(replies)


def _acceptance(acquired: Acquired) -> list[Answer]:
    partition, offsets = acquired.partition, acquired.chunk.offsets
    if isinstance(offsets, range):
        return [Answer(partition, offsets[0], offsets[-1], "accept")]
    return answers_of({(partition.topic, partition.partition, offset): ACCEPT for offset in offsets})
