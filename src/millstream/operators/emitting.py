"""How changes of a table with a store are passed on.

An update reads the row, computes the new value and passes (key, new, old) on. With caching on it is passed on once
per key at the end of the batch, with the last new value and the first old one.
"""

from __future__ import annotations

from millstream.foundation.object_codec import value_codec
from millstream.operators.columns import ColumnBatch, EndOfBatch, ProcessRun
from millstream.operators.runtime import Process, Runtime
from millstream.plan.node import Node
from millstream.state.keyvalue import KeyValueStore, StoredRow


def store_of(node: Node, runtime: Runtime) -> KeyValueStore:
    """Return the store of the table that a node keeps."""
    return runtime.store(node, value_codec(runtime.plan.declared[node].value))


class Emitter:
    """Passes the updates of a table on."""

    def __init__(self, node: Node, store: KeyValueStore, forward: Process, runtime: Runtime) -> None:
        self.at_once: Process | None = None if runtime.caching else forward
        """Passes an update on, or None if that waits until the end of the batch.

        What waits carries the headers of the last update then, which its operator leaves at the row."""
        self._store = store
        self._forward = forward
        self._forward_run: ProcessRun | None = None
        self._context = runtime.context
        if runtime.caching:
            runtime.on_flush(node, self._flush)

    def flushing_to(self, forward: ProcessRun | None) -> None:
        """Have what waits for the end of the batch passed on as a run then."""
        self._forward_run = forward

    def _flush(self) -> None:
        changed = self._store.take_changed()
        if self._forward_run is None or any(row.headers for row in changed):
            self._flush_singly(changed)
        elif changed:
            size, keys, values = len(changed), [row.key for row in changed], [row.value for row in changed]
            timestamps = [row.timestamp for row in changed]
            self._forward_run(ColumnBatch(EndOfBatch(self._context, size), range(size), keys, values, timestamps))
        self._store.settle(changed)

    def _flush_singly(self, changed: list[StoredRow]) -> None:
        forward, context = self._forward, self._context
        for row in changed:
            carried = context.carry(row.headers) if row.headers else None
            forward(row.key, row.value, row.before, row.timestamp)
            if carried is not None:
                context.restore(carried)
