"""The stores that are attached to a processor, opened on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.errors import DefinitionError
from millstream.foundation.object_codec import value_codec
from millstream.operators.aggregation import store_of_windows
from millstream.operators.runtime import Runtime
from millstream.plan.histories import history_of
from millstream.plan.node import Node
from millstream.plan.stages import attached_name, keeps_table
from millstream.plan.stateful import WindowedAggregate
from millstream.processors import SessionSpec, StoreUse, TableSpec, VersionedSpec, WindowSpec
from millstream.state.processor_stores import KeyValueView, SessionView, VersionedView, WindowView
from millstream.state.segments import ONE_TIME, TWO_TIMES
from millstream.windows import SessionWindows

OnEngineError = Callable[[Exception], None]
"""Called with an error that user code must not handle."""


class AttachedStores:
    """Stores by their names in the processor."""

    def __init__(
        self, node: Node, uses: tuple[StoreUse, ...], runtime: Runtime, on_engine_error: OnEngineError
    ) -> None:
        self._node = node
        self._uses = {use.local: use for use in uses}
        self._runtime = runtime
        self._on_engine_error = on_engine_error
        self._open: dict[str, Any] = {}

    def __call__(self, name: str) -> Any:
        """Return a store."""
        store = self._open.get(name)
        if store is None:
            store = self._open[name] = self._open_store(name)
        return store

    def _open_store(self, name: str) -> Any:
        use, runtime = self._uses.get(name), self._runtime
        arguments = name, runtime.context, self._on_engine_error
        if use is None:
            for topic, node in runtime.plan.global_tables.items():
                if node.name == name:
                    return KeyValueView(runtime.global_table(topic), *arguments, writable=False)
            declared = ", ".join(self._uses) or "none"
            raise DefinitionError(
                f"the processor of {self._node.name!r} declares no store {name!r} (it has: {declared})",
                hint=f'declare it in the class: stores = {{"{name}": key_value_store()}}',
                store=name,
            )
        if isinstance(use.spec, TableSpec):
            return self._table(use.spec.name or "", *arguments)
        stored_name, codec = attached_name(self._node, use), value_codec(use.spec.value)
        if isinstance(use.spec, WindowSpec | SessionSpec):
            kind, layout = (WindowView, ONE_TIME) if isinstance(use.spec, WindowSpec) else (SessionView, TWO_TIMES)
            return kind(runtime.open_timed_store(stored_name, codec, layout, use.spec.retention), *arguments)
        if isinstance(use.spec, VersionedSpec):
            return VersionedView(runtime.open_versioned_store(stored_name, codec, use.spec.history), *arguments)
        return KeyValueView(runtime.open_store(stored_name, codec), *arguments)

    def _table(self, table: str, *arguments: Any) -> Any:
        runtime = self._runtime
        node = next(node for node in runtime.plan.nodes if node.name == table and keeps_table(node))
        codec = value_codec(runtime.plan.declared[node].value)
        if history_of(node) is not None:
            return VersionedView(runtime.versioned_store(node, codec), *arguments, writable=False)
        if not isinstance(node, WindowedAggregate):
            return KeyValueView(runtime.store(node, codec), *arguments, writable=False)
        store = store_of_windows(node, runtime)
        kind = SessionView if isinstance(node.windows, SessionWindows) else WindowView
        return kind(store, *arguments, writable=False)
