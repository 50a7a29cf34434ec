"""The open source: reads the stream, reads chunks of snapshots between transactions, and returns intakes."""

from __future__ import annotations

import time
from collections import deque

import msgspec

from millstream.connect.protocols import ConnectorContext, Intake
from millstream.connectors.change_data.changes import (
    CompleteChanges,
    TableChanges,
    changed_keys,
    changes_of_cells,
    key_column,
)
from millstream.connectors.change_data.format import ChangeFormat
from millstream.connectors.change_data.json_rows import JsonColumns
from millstream.connectors.change_data.relation import READ
from millstream.connectors.change_data.row_format import concat_blocks
from millstream.connectors.change_data.schema_digests import SchemaDigests
from millstream.connectors.change_data.snapshot_progress import SnapshotProgress
from millstream.connectors.change_data.table_topics import qualified
from millstream.connectors.mysql_cdc.binlog_stream import BinlogStream
from millstream.connectors.mysql_cdc.chunks import PlacedChunk, PlacedChunkReader
from millstream.connectors.mysql_cdc.connection import TableChangedError
from millstream.connectors.mysql_cdc.position import BinlogPosition, LogLocation, log_location
from millstream.connectors.mysql_cdc.server import Server
from millstream.connectors.mysql_cdc.stream_state import BinlogState
from millstream.errors import ConnectorError, TargetUnavailableError
from millstream.foundation.blocks import Block

_INTAKE_BYTES = 2 << 20
_MAX_BYTES = 64 << 20
"""A larger transaction is returned in parts."""
_IDLE_SECONDS = 5.0
_IDLE_BYTES = 16 << 20
_REREAD_SECONDS = 0.01
_LOCK_PAUSE_SECONDS = 1.0
_REPORT_SECONDS = 5.0


class MysqlParts(msgspec.Struct, frozen=True):
    """What a reader is made of."""

    stream: BinlogStream
    state: BinlogState
    chunks: PlacedChunkReader
    server: Server
    format: ChangeFormat
    schemas: SchemaDigests
    topics: dict[str, str]
    """By table."""
    database: str


class MysqlReader:
    """Reads changes and snapshots of the tables of one source."""

    def __init__(
        self, position: BinlogPosition, context: ConnectorContext, parts: MysqlParts, *, is_durable: bool
    ) -> None:
        self._position = position
        self._progress = position.snapshot
        self._done = position.tables
        self._context = context
        self._parts = parts
        self._stream, self._state = parts.stream, parts.state
        self._events: deque[bytes] = deque()
        self._blocks: dict[str, list[Block]] = {}
        self._chunk: PlacedChunk | None = None
        self._reread_at = 0.0
        self._chunks_reread = 0
        self._report_at = 0.0
        self._advanced_at = time.monotonic()
        self._has_progressed = not is_durable
        self._first_end = log_location(*parts.server.end_of_log())

    def read(self, timeout: float) -> Intake | None:
        """Return the transactions and the rows of snapshots that have arrived, up to the end of a transaction."""
        deadline = time.monotonic() + timeout
        while not self._context.stopping.is_set():
            self._advance_snapshot()
            now = time.monotonic()
            self._report(now)
            is_full = self._consume()
            if self._is_due(now, is_full=is_full):
                return self._intake()
            if self._events:
                continue
            left = deadline - time.monotonic()
            self._events.extend(self._stream.events(max(0.0, min(left, self._patience()))))
            if not self._events and left <= 0:
                return None
        return None

    def _consume(self) -> bool:
        """Take events until the next transaction has to wait; return whether there is enough for an intake."""
        state, events = self._state, self._events
        while events:
            is_between = state.consume(events.popleft())
            if is_between and self._chunk is not None and state.location >= self._chunk.location:
                return True
            if state.bytes >= (_INTAKE_BYTES if is_between else _MAX_BYTES):
                return True
        return False

    def _is_due(self, now: float, *, is_full: bool) -> bool:
        state = self._state
        if state.is_in_transaction:
            return state.bytes >= _MAX_BYTES
        if self._chunk is not None and state.location >= self._chunk.location:
            return False  # it is written first, and the intake has both
        if state.bytes or self._has_progressed:
            return is_full or not self._events
        ahead = _distance(self._position.location, state.location)
        return ahead > 0 and (now - self._advanced_at >= _IDLE_SECONDS or ahead >= _IDLE_BYTES)

    def _patience(self) -> float:
        return _REREAD_SECONDS if self._progress.tables and self._chunk is None else 1.0

    def _report(self, now: float) -> None:
        if now < self._report_at:
            return
        self._report_at = now + _REPORT_SECONDS
        at, logs = self._state.location, self._parts.server.logs()
        waiting = sum(size for file, size in logs.items() if log_location(file, 0).number > at.number)
        waiting += max(0, logs.get(self._state.file, 0) - at.offset)
        self._context.report("waiting_log_bytes", waiting)
        self._context.report("snapshot_tables_left", len(self._progress.tables))
        self._context.report("snapshot_rows", self._progress.rows)
        self._context.report("snapshot_chunks_reread", self._chunks_reread)

    # ---- snapshots ----

    def _advance_snapshot(self) -> None:
        """Read the next chunk, or write the one that was read once the stream is where it was read."""
        state = self._state
        if state.is_in_transaction or state.skip:
            return
        if self._chunk is None and self._progress.tables and time.monotonic() >= self._reread_at:
            self._read_chunk()
        if self._chunk is not None and state.location >= self._chunk.location:
            self._write_chunk(self._chunk)

    def _read_chunk(self) -> None:
        try:
            chunk = self._parts.chunks.read(self._progress)
        except TableChangedError:
            self._reread(_REREAD_SECONDS)
        except TargetUnavailableError as error:
            if error.__cause__ is None or error.__cause__.args[:1] != (1205,):
                raise
            self._reread(_LOCK_PAUSE_SECONDS)  # a transaction holds the table
        else:
            if chunk.location < self._state.location:  # a transaction is streamed before a snapshot sees it
                self._reread(_REREAD_SECONDS)
            else:
                self._chunk = chunk

    def _reread(self, seconds: float) -> None:
        self._chunks_reread += 1
        self._reread_at = time.monotonic() + seconds

    def _write_chunk(self, chunk: PlacedChunk) -> None:
        self._write_runs()
        table, *others = self._progress.tables
        if chunk.cells.row_count:
            changes = changes_of_cells(
                chunk.relation, chunk.cells, READ, time=chunk.seconds * 1_000_000, lsn=chunk.offset
            )
            self._add(self._parts.topics[table], changes)
        self._chunk = None
        self._has_progressed = True
        if chunk.is_last:
            self._done = (*self._done, table)
            self._progress = SnapshotProgress(tuple(others))
        else:
            rows = self._progress.rows + chunk.cells.row_count
            self._progress = msgspec.structs.replace(self._progress, after=chunk.last_key, rows=rows)

    def snapshot(self, table: str) -> None:
        """Read a table again from the start, while the stream goes on."""
        name = qualified(table, self._parts.database)
        if name not in self._parts.topics:
            raise ConnectorError(f"table {table!r} is not one of this source", hint="add it to tables")
        if name not in self._progress.tables:
            self._done = tuple(done for done in self._done if done != name)
            self._progress = msgspec.structs.replace(self._progress, tables=(*self._progress.tables, name))
            self._has_progressed = True  # the next position has the request

    # ---- intakes ----

    def _write_runs(self) -> None:
        for run in self._state.take_runs():
            self._parts.schemas.remember(run.table.relation)
            for changes in run.changes():
                self._add(run.topic, changes)

    def _add(self, topic: str, changes: TableChanges) -> None:
        keys = key_column(changes.relation, JsonColumns(changes.cells), changes.cells)
        complete = CompleteChanges(changes, keys, changed_keys(changes, keys), [None] * len(keys), [])
        block = self._parts.format.block(complete)
        if block.num_rows:
            self._blocks.setdefault(topic, []).append(block)

    def _intake(self) -> Intake:
        state = self._state
        milliseconds = state.time * 1000 if state.bytes else None
        self._write_runs()
        if not state.is_in_transaction:
            state.transactions.clear()
        self._position = msgspec.structs.replace(
            self._position,
            file=state.file,
            offset=state.offset,
            gtid=state.gtid,
            taken=max(state.taken, state.skip),
            tables=self._done,
            snapshot=self._progress,
            schemas=dict(self._parts.schemas),
        )
        self._has_progressed = False
        self._advanced_at = time.monotonic()
        blocks, self._blocks = self._blocks, {}
        records = {topic: concat_blocks(parts) for topic, parts in blocks.items()}
        return Intake(records=records, position=self._position.to_bytes(), event_time=milliseconds)

    def has_caught_up(self) -> bool:
        """Return whether all snapshots have ended, and the stream has passed the end of the log at the opening."""
        return (
            self._state.location >= self._first_end and not self._progress.tables and not self._state.is_in_transaction
        )

    def committed(self, position: bytes) -> None:
        """Do nothing: the server keeps its log for as long as it is configured to."""

    def close(self) -> None:
        """Close all connections."""
        self._stream.close()
        self._parts.chunks.close()
        self._parts.server.statements.close()


def _distance(start: LogLocation, end: LogLocation) -> int:
    """Return how many bytes lie between two places; another file counts as far."""
    return end.offset - start.offset if end.number == start.number else _IDLE_BYTES
