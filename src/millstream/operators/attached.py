"""The stores that a processor has attached, opened when it first asks for them."""

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

Trouble = Callable[[Exception], None]


class AttachedStores:
    """Stores by the names that a processor calls them."""

    def __init__(self, node: Node, uses: tuple[StoreUse, ...], runtime: Runtime, trouble: Trouble) -> None:
        self._node = node
        self._uses = {use.local: use for use in uses}
        self._runtime = runtime
        self._trouble = trouble
        self._open: dict[str, Any] = {}

    def __call__(self, name: str) -> Any:
        """Return a store."""
        found = self._open.get(name)
        if found is None:
            found = self._open[name] = self._opened(name)
        return found

    def _opened(self, name: str) -> Any:
        use, runtime = self._uses.get(name), self._runtime
        arguments = name, runtime.context, self._trouble
        if use is None:
            for topic, node in runtime.plan.global_tables.items():
                if node.name == name:
                    return KeyValueView(runtime.global_table(topic), *arguments, writable=False)
            known = ", ".join(self._uses) or "none"
            raise DefinitionError(
                f"the processor of {self._node.name!r} declares no store {name!r} (it has: {known})",
                hint=f'declare it in the class: stores = {{"{name}": key_value_store()}}',
                store=name,
            )
        if isinstance(use.spec, TableSpec):
            return self._table(use.spec.name or "", *arguments)
        stored, codec = attached_name(self._node, use), value_codec(use.spec.value)
        if isinstance(use.spec, WindowSpec | SessionSpec):
            kind, layout = (WindowView, ONE_TIME) if isinstance(use.spec, WindowSpec) else (SessionView, TWO_TIMES)
            return kind(runtime.open_timed_store(stored, codec, layout, use.spec.retention), *arguments)
        if isinstance(use.spec, VersionedSpec):
            return VersionedView(runtime.open_versioned_store(stored, codec, use.spec.history), *arguments)
        return KeyValueView(runtime.open_store(stored, codec), *arguments)

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
