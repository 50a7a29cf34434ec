"""The open source: reads the stream, reads chunks of snapshots between transactions, and returns intakes."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from millstream.connect.protocols import ConnectorContext, Intake
from millstream.connectors.change_data.snapshot_progress import SnapshotProgress
from millstream.connectors.postgres_cdc.chunks import ChunkReader, SnapshotChunk
from millstream.connectors.postgres_cdc.completion import Completion
from millstream.connectors.postgres_cdc.connection import ReplicationStream
from millstream.connectors.postgres_cdc.position import Position, lsn_text, parse_lsn, parse_position
from millstream.connectors.postgres_cdc.row_store import RowStore
from millstream.connectors.postgres_cdc.schemas import Schemas
from millstream.connectors.postgres_cdc.slot_gauges import SlotGauges
from millstream.connectors.postgres_cdc.stream_state import StreamState
from millstream.connectors.postgres_cdc.writing import RecordWriting
from millstream.errors import ConnectorError

_INTAKE_ROWS = 20_000
_MAX_ROWS, _MAX_BYTES = 200_000, 64 << 20
"""A larger transaction is returned in parts."""
_WRITTEN_ROWS, _WRITTEN_BYTES = 4096, 2 << 20
"""Decoded before more is received, so that messages do not pile up, and the server hears from the reader in between."""
_BURST_ROWS = 500
_BURST_SECONDS = 0.05
_IDLE_SECONDS = 5.0
_IDLE_BYTES = 16 << 20
_REREAD_SECONDS = 0.01
_MAX_STREAMED = 64


class Parts(msgspec.Struct, frozen=True):
    """What a reader is made of."""

    stream: ReplicationStream
    state: StreamState
    chunks: ChunkReader
    writing: RecordWriting
    store: RowStore
    completion: Completion
    schemas: Schemas
    gauges: SlotGauges
    topics: dict[str, str]
    """By table."""


class PostgresReader:
    """Reads changes and snapshots of the tables of one source."""

    def __init__(self, position: Position, context: ConnectorContext, parts: Parts, *, is_durable: bool) -> None:
        self._position = position
        self._progress = position.snapshot
        self._done = position.tables
        self._context = context
        self._parts = parts
        self._stream, self._state = parts.stream, parts.state
        self._messages: Sequence[bytes] = ()
        self._next = 0
        self._written = self._written_bytes = 0
        self._chunk: SnapshotChunk | None = None
        self._reread_at = 0.0
        self._chunks_reread = 0
        self._confirmed = parse_lsn(position.lsn)
        self._status_at = 0.0
        self._advanced_at = time.monotonic()
        self._has_progressed = not is_durable
        self._first_end = parts.chunks.end_of_log()

    def read(self, timeout: float) -> Intake | None:
        """Return the transactions and the rows of snapshots that have arrived, up to the end of a transaction."""
        deadline, burst_end = time.monotonic() + timeout, None
        state = self._state
        while not self._context.stopping.is_set():
            self._receive()
            if not state.is_in_transaction:
                self._advance_snapshot()
            elif state.rows >= _MAX_ROWS or state.bytes >= _MAX_BYTES:
                return self._intake()
            now = time.monotonic()
            self._keep_alive(now)
            if self._next < len(self._messages) and state.rows < _INTAKE_ROWS:
                continue
            if not state.is_in_transaction and self._has_something(now):
                if burst_end is None and _BURST_ROWS <= state.rows < _INTAKE_ROWS:
                    burst_end = now + _BURST_SECONDS
                if burst_end is None or state.rows >= _INTAKE_ROWS or now >= burst_end:
                    return self._intake()
            if now >= deadline and burst_end is None:
                return None
            self._stream.wait(max(0.0, min((burst_end or deadline) - now, self._patience())))
        return None

    def _receive(self) -> None:
        if self._next >= len(self._messages):
            self._messages, self._next = self._stream.messages(), 0
        self._next = self._state.consume(self._messages, self._next, _INTAKE_ROWS)
        state = self._state
        if state.rows - self._written >= _WRITTEN_ROWS or state.bytes - self._written_bytes >= _WRITTEN_BYTES:
            self._write_runs()

    def _has_something(self, now: float) -> bool:
        if self._state.rows or self._has_progressed:
            return True
        ahead = self._state.at - parse_lsn(self._position.lsn)
        is_due = now - self._advanced_at >= _IDLE_SECONDS or ahead >= _IDLE_BYTES
        return ahead > 0 and is_due and self._chunk is None

    def _patience(self) -> float:
        return _REREAD_SECONDS if self._progress.tables else 1.0

    def _keep_alive(self, now: float) -> None:
        """Answer the server, and look at the slot now and then."""
        if self._state.wants_answer or now >= self._status_at:
            self._stream.confirm(self._confirmed)
            self._state.wants_answer = False
        if now >= self._status_at:
            self._status_at = now + self._stream.status_seconds
            self._parts.gauges.report(self._progress, self._chunks_reread, self._parts.completion.unknown)

    # ---- snapshots ----

    def _advance_snapshot(self) -> None:
        """Read the next chunk, or write the one that was read once the stream has passed it."""
        if self._chunk is None and self._progress.tables and time.monotonic() >= self._reread_at:
            self._read_chunk()
        if self._chunk is not None and self._state.at >= self._chunk.high:
            self._write_chunk(self._chunk)

    def _read_chunk(self) -> None:
        chunk = self._parts.chunks.read(self._progress)
        if chunk is None:
            raise ConnectorError(
                f"table {self._progress.tables[0]} does not exist any longer", hint="remove it from tables"
            )
        sees_streamed = self._state.streamed.are_seen_by(chunk.snapshot)
        if chunk.snapshot.begin < self._progress.barrier or not sees_streamed:
            self._chunks_reread += 1
            self._reread_at = time.monotonic() + _REREAD_SECONDS
        else:
            self._chunk = chunk
            self._stream.confirm(self._confirmed, wants_answer=True)  # the answer says how far the stream is

    def _write_chunk(self, chunk: SnapshotChunk) -> None:
        self._write_runs()
        table, *others = self._progress.tables
        self._parts.writing.write_chunk(self._parts.topics[table], chunk)
        self._chunk = None
        self._has_progressed = True
        rows = self._progress.rows + chunk.count
        if chunk.is_last:
            self._done = (*self._done, table)
            self._progress = SnapshotProgress(tuple(others), barrier=self._progress.barrier)
        else:
            self._progress = msgspec.structs.replace(self._progress, after=chunk.last_key, rows=rows)

    def snapshot(self, table: str) -> None:
        """Read a table again from the start, while the stream goes on."""
        name = table if "." in table else f"public.{table}"
        if name not in self._parts.topics:
            raise ConnectorError(f"table {table!r} is not one of this source", hint="add it to tables")
        if name not in self._progress.tables:
            self._done = tuple(done for done in self._done if done != name)
            self._progress = msgspec.structs.replace(self._progress, tables=(*self._progress.tables, name))
            self._has_progressed = True  # the next position has the request

    # ---- intakes ----

    def _write_runs(self) -> None:
        self._parts.writing.write(self._state.runs.take(), self._chunk, self._progress.tables)
        self._written, self._written_bytes = self._state.rows, self._state.bytes

    def _intake(self) -> Intake:
        state = self._state
        time_ms = state.time // 1000 if state.rows else None
        self._write_runs()
        state.clear()
        self._written = self._written_bytes = 0
        if len(state.streamed) > _MAX_STREAMED:
            state.streamed.are_seen_by(self._parts.chunks.visible())
        is_partial = state.is_in_transaction or state.skip > 0
        transaction = state.transaction if state.is_in_transaction else state.resumed
        self._position = msgspec.structs.replace(
            self._position,
            lsn=lsn_text(state.at),
            transaction=transaction if is_partial else 0,
            taken=max(state.taken, state.skip) if is_partial else 0,
            tables=self._done,
            snapshot=self._progress,
            streamed=tuple({*state.streamed.ids, transaction}) if is_partial else state.streamed.ids,
            schemas=dict(self._parts.schemas.digests),
            rows=self._parts.store.id,
            staged=self._parts.store.stage(),
        )
        self._has_progressed = False
        self._advanced_at = time.monotonic()
        return Intake(records=self._parts.writing.take(), position=self._position.to_bytes(), event_time=time_ms)

    def has_caught_up(self) -> bool:
        """Return whether all snapshots have ended, and the stream has passed the end of the log at the opening."""
        if self._state.at < self._first_end:
            self._stream.confirm(self._confirmed, wants_answer=True)  # the answer says how far the stream is
            return False
        return not self._progress.tables

    def committed(self, position: bytes) -> None:
        """Let the server forget what is durable here."""
        committed = parse_position(position)
        self._parts.store.commit(committed.staged)
        self._confirmed = parse_lsn(committed.lsn)
        self._stream.confirm(self._confirmed)

    def close(self) -> None:
        """Close all connections."""
        self._stream.close()
        self._parts.chunks.close()
        self._parts.store.close()
