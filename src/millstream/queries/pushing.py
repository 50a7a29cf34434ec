"""Queries over topics: a temporary topology whose rows are shown, up to the end of the topics or until it is closed."""

from __future__ import annotations

from threading import Lock
from typing import Any

from millstream.broker import Broker
from millstream.dsl.sources import Sources
from millstream.dsl.table import Table
from millstream.foundation.object_codec import encode_key
from millstream.functions import Context, Function
from millstream.plan.stateless import Foreach
from millstream.plan.topology import Plan
from millstream.queries.answers import Change, Result, Values
from millstream.queries.limits import Budget
from millstream.queries.temporary import TemporaryRun
from millstream.sql.catalog import Catalog
from millstream.sql.nodes import Query
from millstream.sql.showing import Shown, ShownRows
from millstream.sql.translate.reading import Readers
from millstream.sql.translate.showing import ShowingTranslator

MAX_KNOWN_ROWS = 100_000
"""How many keys a query over a table with WHERE keeps."""


class Records:
    """The records that a temporary topology produces: key, value and time."""

    def __init__(self) -> None:
        self.keys: list[Any] = []
        self.values: list[Any] = []
        self.times: list[int] = []

    def add(self, key: Any, value: Any, context: Context) -> None:
        """Take a record."""
        self.keys.append(key)
        self.values.append(value)
        self.times.append(context.timestamp)

    def taken(self) -> ShownRows:
        """Return the records so far and forget them."""
        rows = ShownRows(self.keys, self.values, self.times)
        self.keys, self.values, self.times = [], [], []
        return rows


class Topology:
    """A query as a topology of its own, which ends in a list of records."""

    def __init__(self, query: Query, catalog: Catalog) -> None:
        sources = Sources("query")
        flow = ShowingTranslator(query, Readers(sources), catalog).flow()
        self.shown: Shown = flow.shown
        self.is_table = flow.is_table
        self.records = Records()
        handle = flow.handle.to_stream() if isinstance(flow.handle, Table) else flow.handle
        sources._draft.add(Foreach(source=handle._node, action=Function(self.records.add, 3)))
        self.plan = Plan.of(sources._draft)


class PushQuery:
    """A query with EMIT CHANGES: from now on or from the beginning, until LIMIT or until it is closed.

    From now on means: tables are read first and in silence, so that joins know their rows.
    """

    def __init__(self, query: Query, catalog: Catalog, broker: Broker, *, from_beginning: bool) -> None:
        self._topology = Topology(query, catalog)
        self.columns = self._topology.shown.columns
        self._left = query.limit
        self._skip = query.skip or 0
        self._rows: set[bytes] = set()
        """The keys of rows that were shown; with WHERE a row may leave the table that never was in it."""
        self._shows_all_deletions = query.where is None and query.having is None
        self._lock = Lock()
        self._is_closed = False
        self._run = TemporaryRun(self._topology.plan, broker)
        self._silent = not from_beginning
        if self._silent:
            ends = self._run.ends()
            self._run.skip_to(ends)
            self._run.stop_at(ends)

    @property
    def skipped(self) -> int:
        """How many records could not be read or were too late."""
        return self._run.skipped

    def take(self, timeout: float) -> list[Change] | None:
        """Return the next rows, none after ``timeout`` seconds without any, None after the last one."""
        with self._lock:
            return None if self._left == 0 or self._is_closed else self._taken(timeout)

    def _taken(self, timeout: float) -> list[Change]:
        if not self._run.step():
            if self._silent:
                self._silent = False
                self._run.stop_at(None)
            else:
                self._run.wait(timeout)
            return []
        records = self._topology.records.taken()
        return [] if self._silent else self._cut(records)

    def _cut(self, records: ShownRows) -> list[Change]:
        rows = self._topology.shown.rows(records)
        changes = [
            Change(values, is_deleted=value is None)
            for key, values, value in zip(records.keys, rows, records.values, strict=True)
            if self._is_shown(key, is_null=value is None)
        ]
        shown, self._skip = changes[self._skip :], max(0, self._skip - len(changes))
        if self._left is not None:
            shown = shown[: self._left]
            self._left -= len(shown)
        return shown

    def _is_shown(self, key: Any, *, is_null: bool) -> bool:
        """Whether a record is a row, or deletes a row that was shown before; in a stream null is neither."""
        if not self._topology.is_table:
            return not is_null
        identity = encode_key(key)
        if not is_null:
            if not self._shows_all_deletions:
                self._rows.add(identity)
                self._bound_rows()
            return True
        was_shown = identity in self._rows or self._shows_all_deletions
        self._rows.discard(identity)
        return was_shown

    def _bound_rows(self) -> None:
        """Forget the rows if they are too many; deletions of rows that were not shown are shown from then on."""
        if len(self._rows) > MAX_KNOWN_ROWS:
            self._rows.clear()
            self._shows_all_deletions = True

    def close(self) -> None:
        """End the query; nothing of it is left. Another thread that takes rows is waited for."""
        with self._lock:
            self._is_closed = True
            self._run.close()


def result_so_far(query: Query, catalog: Catalog, broker: Broker, budget: Budget) -> Result:
    """Return the rows of a query over everything that its topics contain now."""
    topology = Topology(query, catalog)
    run = TemporaryRun(topology.plan, broker, on_read=budget.add_read_bytes)
    keys: list[Any] = []
    values: list[Any] = []
    times: list[int] = []
    rows: dict[bytes, tuple[Any, Any, int]] = {}
    try:
        run.stop_at(run.ends())
        records = 0
        while run.step():
            budget.add_read(run.records - records)
            records = run.records
            taken = topology.records.taken()
            if not topology.is_table:
                keys += taken.keys
                values += taken.values
                times += taken.times
                continue
            for key, value, time in zip(*taken, strict=True):
                rows.pop(identity := encode_key(key), None)
                if value is not None:
                    rows[identity] = key, value, time
    finally:
        run.close()
    if topology.is_table:
        ordered = [rows[identity] for identity in sorted(rows)]  # as the rows of a stored table
        keys, values, times = ([row[number] for row in ordered] for number in range(3))
    cut: list[Values] = topology.shown.cut(ShownRows(keys, values, times))
    budget.add_rows(cut)
    note = f"{run.skipped:,} records could not be read" if run.skipped else ""
    return Result(topology.shown.columns, cut, note)
