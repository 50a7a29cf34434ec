"""What was read from the stream: transactions, tables and rows, as messages arrive one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from operator import itemgetter

from millstream.connectors.change_data.relation import DELETE, INSERT, UPDATE, ReplicatedTable
from millstream.connectors.postgres_cdc.messages import (
    BEGIN,
    COMMIT,
    DATA,
    HEADER_BYTES,
    KEEPALIVE,
    MESSAGE,
    RELATION,
    TRUNCATE,
    parse_begin,
    parse_commit,
    parse_emitted,
    parse_keepalive,
    parse_relation,
    parse_start,
    parse_truncate,
)
from millstream.connectors.postgres_cdc.outbox import PREFIX, emitted_record
from millstream.connectors.postgres_cdc.runs import MessageRun, Runs, TruncateRun
from millstream.connectors.postgres_cdc.visibility import StreamedTransactions
from millstream.errors import ConnectorError

_ROWS = (INSERT, UPDATE, DELETE)
_RELATION_START, _RELATION_END = HEADER_BYTES + 1, HEADER_BYTES + 5
_kind_and_relation = itemgetter(slice(HEADER_BYTES, _RELATION_END))


class StreamState:
    """Sorts messages into runs, and knows where the stream is."""

    def __init__(
        self,
        at: int,
        streamed: StreamedTransactions,
        topic_of: Callable[[str], str | None],
        described: Callable[[ReplicatedTable], ReplicatedTable],
        messages: frozenset[str],
        resumed: tuple[int, int],
    ) -> None:
        self.at = at
        """Everything before this place in the log has been received."""
        self.streamed = streamed
        self.runs = Runs()
        self.rows = 0
        self.bytes = 0
        self.is_in_transaction = False
        self.wants_answer = False
        self.transaction = 0
        self.taken = 0
        """Messages of the current transaction that were received."""
        self.resumed, self.skip = resumed
        """The next transaction, and how many of its messages an earlier intake has; 0 if it has none."""
        self.time = 0
        self._topic_of = topic_of
        self._described = described
        self._messages = messages
        self._relations: dict[bytes, tuple[str, ReplicatedTable] | None] = {}

    def clear(self) -> None:
        """Forget the rows, which have been taken."""
        self.rows = self.bytes = 0

    def consume(self, messages: Sequence[bytes], start: int, most_rows: int) -> int:
        """Sort messages from an index on, and return the index of the first that is left.

        It stops after a transaction once there are ``most_rows``.
        """
        index, end = start, len(messages)
        while index < end:
            data = messages[index]
            kind = data[HEADER_BYTES] if data[0] == DATA else 0
            if kind in _ROWS:
                index = self._rows(messages, index)
                continue
            index += 1
            if kind == COMMIT:
                self._commit(data)
                if self.rows >= most_rows:
                    break
            elif kind:
                self._control(kind, bytes(data))
            else:
                self._other(data)
        return index

    def _rows(self, messages: Sequence[bytes], start: int) -> int:
        """Take consecutive rows of one table, and return the index of the next other message."""
        index = start + self._count_rows(messages[start:])
        first = start + min(max(self.skip - self.taken, 0), index - start)
        self.taken += index - start
        relation = self._relations.get(bytes(messages[start][_RELATION_START:_RELATION_END]))
        if relation is not None and first < index:
            run = self.runs.rows_of(*relation)
            if run.transaction != self.transaction:
                run.begin(self.transaction, self.time)
            rows = messages[first:index]
            run.messages += rows
            self.rows += len(rows)
            self.bytes += sum(map(len, rows))
        return index

    def _count_rows(self, messages: Sequence[bytes]) -> int:
        """Return how many messages, from the first on, are rows of one table."""
        prefixes = {bytes((kind,)) + messages[0][_RELATION_START:_RELATION_END] for kind in _ROWS}
        same = takewhile(prefixes.__contains__, map(_kind_and_relation, messages))  # a loop in C
        return len(list(same))

    def _commit(self, data: bytes) -> None:
        self.at = parse_commit(bytes(data))
        self.is_in_transaction = False
        self.streamed.add(self.transaction)
        self.taken = self.skip = 0

    def _control(self, kind: int, data: bytes) -> None:
        if kind == BEGIN:
            begin = parse_begin(data)
            self.transaction, self.time = self.streamed.widened(begin.transaction), begin.commit_time
            self.is_in_transaction = True
            if self.skip and self.transaction != self.resumed:
                raise ConnectorError(
                    f"transaction {self.resumed}, of which {self.skip} rows were read, does not come again",
                    hint="reset the source, which reads all tables again",
                )
        elif kind == RELATION:
            relation = parse_relation(data)
            topic = self._topic_of(relation.name)
            described = None if topic is None else (topic, self._described(relation))
            self._relations[data[_RELATION_START:_RELATION_END]] = described
        elif kind == TRUNCATE:
            self._truncate(data)
        elif kind == MESSAGE:
            self._message(data)

    def _truncate(self, data: bytes) -> None:
        self.taken += 1
        if self.taken <= self.skip:
            return
        for oid in parse_truncate(data):
            described = self._relations.get(oid.to_bytes(4, "big"))
            if described is not None:
                self.runs.add(TruncateRun(*described, self.transaction, self.time, parse_start(data)))
                self.rows += 1

    def _message(self, data: bytes) -> None:
        emitted = parse_emitted(data)
        if not emitted.is_transactional or not emitted.prefix.startswith(PREFIX):
            return
        self.taken += 1
        topic, record = emitted_record(emitted)
        if topic in self._messages and self.taken > self.skip:
            self.runs.add(MessageRun(topic, record, self.time))
            self.rows += 1
            self.bytes += len(data)

    def _other(self, data: bytes) -> None:
        if data[0] == KEEPALIVE:
            end, wants_answer = parse_keepalive(bytes(data))
            self.wants_answer |= wants_answer
            if not self.is_in_transaction:
                self.at = max(self.at, end)
