"""Turns runs into blocks of records: decodes, completes and formats them, and reconciles them with the open chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from millstream.connectors.change_data.changes import CompleteChanges, StoredRow, TableChanges
from millstream.connectors.change_data.format import ChangeFormat
from millstream.connectors.change_data.row_format import concat_blocks
from millstream.connectors.postgres_cdc.chunks import SnapshotChunk
from millstream.connectors.postgres_cdc.completion import Completion
from millstream.connectors.postgres_cdc.outbox import OutboxTable
from millstream.connectors.postgres_cdc.runs import MessageRun, RowRun, Run, TruncateRun
from millstream.errors import ConnectorError
from millstream.foundation.blocks import Block, block_of

OnTruncate: TypeAlias = Literal["tombstones", "stop", "ignore"]


class RecordWriting:
    """Collects the blocks of one intake."""

    def __init__(
        self, format: ChangeFormat, completion: Completion, outbox: OutboxTable | None, on_truncate: OnTruncate
    ) -> None:
        self._format = format
        self._completion = completion
        self._outbox = outbox
        self._on_truncate = on_truncate
        self._blocks: dict[str, list[Block]] = {}

    def write(self, runs: Sequence[Run], chunk: SnapshotChunk | None, awaited: Sequence[str]) -> None:
        """Write runs; ``awaited`` are the tables whose snapshot has not ended."""
        for run in runs:
            if isinstance(run, RowRun):
                self._write_rows(run, chunk, is_awaited=run.relation.name in awaited)
            elif isinstance(run, TruncateRun):
                self._write_truncate(run, chunk)
            else:
                self._write_message(run)

    def _write_rows(self, run: RowRun, chunk: SnapshotChunk | None, *, is_awaited: bool) -> None:
        for changes in run.changes():
            self._write_changes(run.topic, changes, chunk, is_awaited=is_awaited)

    def _write_changes(
        self, topic: str, changes: TableChanges, chunk: SnapshotChunk | None, *, is_awaited: bool
    ) -> None:
        table = changes.relation.name
        if self._outbox is not None and table == self._outbox.table:
            for routed, block in self._outbox.blocks(changes).items():
                self._add(routed, block)
            return
        if chunk is None or chunk.relation.name != table:
            complete = self._completion.complete(changes, _no_row, is_awaited=is_awaited)
        else:
            complete = self._completion.complete(changes, _rows_before(changes, chunk), is_awaited=is_awaited)
            _drop_changed(chunk, complete)
        self._add(topic, self._format.block(complete))

    def write_chunk(self, topic: str, chunk: SnapshotChunk) -> None:
        """Write the rows that are left of a chunk."""
        changes = chunk.changes()
        if changes.cells.row_count and (self._outbox is None or chunk.relation.name != self._outbox.table):
            complete = self._completion.complete(changes, _no_row, is_awaited=False)
            self._add(topic, self._format.block(complete))

    def _write_truncate(self, run: TruncateRun, chunk: SnapshotChunk | None) -> None:
        if self._on_truncate == "stop":
            raise ConnectorError(
                f"table {run.relation.name} was truncated, and its keys are not known",
                hint="set keep_rows='all' to write tombstones from now on, or on_truncate='ignore'",
            )
        if chunk is not None and chunk.relation.name == run.relation.name and not chunk.snapshot.sees(run.transaction):
            chunk.drop_all()
        complete = self._completion.truncated(run)
        if self._on_truncate == "tombstones" and len(complete.keys):
            self._add(run.topic, self._format.block(complete))

    def _write_message(self, run: MessageRun) -> None:
        record = run.record
        self._add(run.topic, block_of([record.key], [record.value], [run.time // 1000], [record.headers]))

    def _add(self, topic: str, block: Block) -> None:
        if block.num_rows:
            self._blocks.setdefault(topic, []).append(block)

    def take(self) -> dict[str, Block]:
        """Return the blocks by topic and forget them."""
        blocks, self._blocks = self._blocks, {}
        return {topic: concat_blocks(parts) for topic, parts in blocks.items()}


def _no_row(_row: int, _key: bytes) -> StoredRow | None:
    return None


def _rows_before(changes: TableChanges, chunk: SnapshotChunk) -> Callable[[int, bytes], StoredRow | None]:
    """Return what the chunk has for a key, which is the row before a transaction that the chunk does not see."""

    def row_before(row: int, key: bytes) -> StoredRow | None:
        return None if chunk.snapshot.sees(int(changes.transactions[row])) else chunk.row(key)

    return row_before


def _drop_changed(chunk: SnapshotChunk, complete: CompleteChanges) -> None:
    transactions: Any = complete.changes.transactions
    newer = [number for number in np.unique(transactions).tolist() if not chunk.snapshot.sees(number)]
    if newer:
        rows = np.flatnonzero(np.isin(transactions, newer)).tolist()
        keys = complete.keys.to_pylist()
        chunk.drop([keys[row] for row in rows])
        chunk.drop([complete.old_keys[row] for row in rows if row in complete.old_keys])
