"""Forward the changes of a table with a store.

An update reads the row, computes the new value and forwards (key, new, old). With caching on, a key is forwarded once
at the end of the batch, with the last new value and the first old one.
"""

from __future__ import annotations

from millstream.foundation.object_codec import value_codec
from millstream.operators.columns import ColumnBatch, EndOfBatch, ProcessColumns
from millstream.operators.runtime import Process, Runtime
from millstream.plan.node import Node
from millstream.state.keyvalue import KeyValueStore, StoredRow


def store_of(node: Node, runtime: Runtime) -> KeyValueStore:
    """Return the store of a node's table."""
    return runtime.store(node, value_codec(runtime.plan.declared[node].value))


class Emitter:
    """Forwards the updates of a table."""

    def __init__(self, node: Node, store: KeyValueStore, forward: Process, runtime: Runtime) -> None:
        self.emit_now: Process | None = None if runtime.caching else forward
        """Forwards an update at once; None if updates wait until the end of the batch.

        An update that waits is forwarded with the headers of the last update, which its operator sets on the row."""
        self._store = store
        self._forward = forward
        self._forward_columns: ProcessColumns | None = None
        self._context = runtime.context
        if runtime.caching:
            runtime.on_flush(node, self._flush)

    def flush_to(self, forward: ProcessColumns | None) -> None:
        """Forward the updates that wait for the end of the batch as a column batch."""
        self._forward_columns = forward

    def _flush(self) -> None:
        counted = None if self._forward_columns is None else self._store.take_counted()
        if counted is not None and self._forward_columns is not None:
            size = len(counted.keys)
            self._forward_columns(ColumnBatch(EndOfBatch(self._context, size), range(size), *counted))
        changed = self._store.take_changed()
        if self._forward_columns is None or any(row.headers for row in changed):
            self._flush_singly(changed)
        elif changed:
            size, keys, values = len(changed), [row.key for row in changed], [row.value for row in changed]
            timestamps = [row.timestamp for row in changed]
            self._forward_columns(ColumnBatch(EndOfBatch(self._context, size), range(size), keys, values, timestamps))
        self._store.reset_changes(changed)

    def _flush_singly(self, changed: list[StoredRow]) -> None:
        forward, context = self._forward, self._context
        for row in changed:
            saved = context.override_headers(row.headers) if row.headers else None
            forward(row.key, row.value, row.before, row.timestamp)
            if saved is not None:
                context.restore_headers(saved)
