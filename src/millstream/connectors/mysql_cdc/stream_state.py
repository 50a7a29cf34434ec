"""What was read from the log: transactions, tables and row events, as they arrive one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from millstream.connectors.mysql_cdc import events
from millstream.connectors.mysql_cdc.events import Header, LoggedStatement
from millstream.connectors.mysql_cdc.position import LogLocation, log_location
from millstream.connectors.mysql_cdc.row_events import LoggedRun, LoggedTable, RowEvent
from millstream.connectors.mysql_cdc.statements import changed_table, refuse_statement_format
from millstream.connectors.mysql_cdc.table_maps import parse_name
from millstream.errors import ConnectorError

OnTruncate: TypeAlias = Literal["stop", "ignore"]
"""What happens at statements such as TRUNCATE and DROP TABLE, which change rows without row events."""

_ROWS = events.WRITES | events.UPDATES | events.DELETES
_REFUSED = {
    events.PARTIAL_UPDATE: ("parts of JSON values", "set binlog_row_value_options = ''"),
    events.PAYLOAD: ("compressed transactions", "set binlog_transaction_compression = OFF"),
    events.INCIDENT: ("a gap, which the server has reported", "the changes are lost"),
}


class LoggedTransaction(NamedTuple):
    """What the records of a transaction say about it."""

    gtid: str
    file: str
    server_id: int


class BinlogState:
    """Sorts events into runs, and knows where the stream is."""

    def __init__(
        self,
        start: tuple[str, int],
        gtid: str,
        skip: int,
        topics: Mapping[str, str],
        table_of: Callable[[bytes], LoggedTable],
        on_truncate: OnTruncate,
    ) -> None:
        self.file, self.offset = start
        """The end of the last transaction that was received."""
        self.gtid = gtid
        self.skip = skip
        """How many row events of the next transaction an earlier intake has."""
        self.taken = 0
        """Row events of the current transaction."""
        self.time = 0
        self.bytes = 0
        self.is_in_transaction = False
        self.transactions: dict[int, LoggedTransaction] = {}
        self._has_begun = False
        self._number = 0
        self._next_gtid = ""
        self._topics = topics
        self._table_of = table_of
        self._on_truncate = on_truncate
        self._tables: dict[bytes, tuple[str, LoggedTable] | None] = {}
        self._pending: list[tuple[str, LoggedTable, RowEvent]] = []
        self._runs: list[LoggedRun] = []
        self._open: dict[str, LoggedRun] = {}

    @property
    def location(self) -> LogLocation:
        return log_location(self.file, self.offset)

    def consume(self, event: bytes) -> bool:
        """Take an event; return whether the stream is between two transactions now."""
        header = events.parse_header(event)
        kind = header.kind
        if kind in _ROWS:
            self._rows(header, event)
        elif kind == events.TABLE_MAP:
            self._table(event)
        elif kind == events.XID:
            self._end(header)
        elif kind in (events.QUERY, events.COMPRESSED_QUERY):
            self._query(header, events.parse_query(event, is_compressed=kind == events.COMPRESSED_QUERY))
        elif kind == events.ROTATE:
            self._rotate(event, header)
        else:
            self._other(header, event)
        return not self.is_in_transaction

    def take_runs(self) -> list[LoggedRun]:
        """Return what was received, with the rows of a transaction that has not ended if there are any."""
        self._release()
        runs, self._runs, self._open = self._runs, [], {}
        self.bytes = 0
        return runs

    def _rows(self, header: Header, event: bytes) -> None:
        self.is_in_transaction = self._has_begun = True
        table = self._tables.get(events.table_id(event))
        if table is None:
            return
        self.taken += 1
        if self.taken > self.skip:
            self.time = header.time
            self.bytes += len(event)
            row_event = RowEvent(header.kind, event, header.time, header.end, self._number)
            self._pending.append((*table, row_event))

    def _table(self, event: bytes) -> None:
        topic = self._topics.get(".".join(parse_name(event)))
        self._tables[events.table_id(event)] = None if topic is None else (topic, self._table_of(event))

    def _query(self, header: Header, query: LoggedStatement) -> None:
        word = query.statement.strip().upper()
        if word == "BEGIN" or word.startswith("XA START"):
            self.is_in_transaction = self._has_begun = True
            return
        if self._has_begun and word == "ROLLBACK":
            self._pending.clear()
        if word in ("COMMIT", "ROLLBACK"):
            self._end(header)
            return
        refuse_statement_format(query, self._topics)
        change = changed_table(query, self._topics)
        if change is not None and self._on_truncate == "stop":
            table, what = change
            raise ConnectorError(
                f"table {table} was {what} by a statement, and the binary log does not say which rows it had",
                hint="delete its topic and reset the source, or set on_truncate='ignore' to keep its records",
            )
        if not self._has_begun:
            self._end(header)

    def _end(self, header: Header) -> None:
        """Note the end of a transaction; its rows are final."""
        self._release()
        self.is_in_transaction = self._has_begun = False
        self.gtid, self._next_gtid = self._next_gtid or self.gtid, ""
        self.taken = self.skip = 0
        self._move(header)

    def _release(self) -> None:
        for topic, table, event in self._pending:
            run = self._open.get(topic)
            if run is None or run.table is not table:
                run = self._open[topic] = LoggedRun(topic, table)
                self._runs.append(run)
            run.events.append(event)
        self._pending.clear()

    def _begin(self, header: Header, begun: events.Begun) -> None:
        self.is_in_transaction, self._has_begun = True, begun.has_begun
        self._next_gtid = begun.gtid
        self._number += 1
        self.transactions[self._number] = LoggedTransaction(begun.gtid, self.file, header.server_id)

    def _rotate(self, event: bytes, header: Header) -> None:
        if self._has_begun and not header.is_artificial:
            raise _unfinished()
        file, offset = events.parse_rotate(event)
        if file != self.file:
            self._tables.clear()
        self.file, self.offset = file, offset

    def _other(self, header: Header, event: bytes) -> None:
        kind = header.kind
        if kind == events.MARIADB_GTID:
            self._begin(header, events.parse_mariadb_gtid(event, header.server_id))
        elif kind == events.GTID:
            self._begin(header, events.parse_gtid(event))
        elif kind in (events.ANONYMOUS_GTID, events.TAGGED_GTID):
            self._begin(header, events.Begun("", False))
        elif kind == events.XA_PREPARE:
            self._prepare(header, event)
        elif kind in _REFUSED:
            what, remedy = _REFUSED[kind]
            raise ConnectorError(
                f"the binary log has {what}, which cannot be read",
                hint=f"{remedy}; then reset the source, which reads all tables again",
            )
        elif kind == events.FORMAT and self._has_begun and not header.is_artificial:
            raise _unfinished()
        elif not self.is_in_transaction:
            self._move(header)

    def _prepare(self, header: Header, event: bytes) -> None:
        """Note the end of a part of a distributed transaction, of which it is not known whether it will commit."""
        if self.taken and not events.is_one_phase(event):
            raise ConnectorError(
                "the binary log has a distributed transaction (XA PREPARE), whose rows cannot be read",
                hint="change the tables in usual transactions; reset the source, which reads all tables again",
            )
        self._end(header)

    def _move(self, header: Header) -> None:
        if header.end and not header.is_artificial:
            self.offset = header.end


def _unfinished() -> ConnectorError:
    return ConnectorError(
        "the binary log ends in the middle of a transaction, since the server was stopped while it wrote it",
        hint="reset the source, which reads all tables again",
    )
