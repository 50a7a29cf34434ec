"""Check the stores that steps share."""

from __future__ import annotations

from millstream.errors import DefinitionError
from millstream.plan.node import Node, Nodes, inputs
from millstream.plan.processors import PROCESSORS, TransformValues
from millstream.plan.sources import GlobalTableSource
from millstream.plan.stages import attached_name, keeps_table, store_names
from millstream.plan.stateful import StreamTableJoin
from millstream.plan.tables import TableTableJoin
from millstream.processors import StoreSpec, StoreUse, TableSpec


def check_stores(nodes: Nodes) -> None:
    """Reject stores that two steps declare differently, unknown tables, and lookups with side effects."""
    tables = {node.name or "": node for node in nodes if keeps_table(node)}
    specs: dict[str, tuple[Node, StoreSpec]] = {}
    for node in nodes:
        if isinstance(node, PROCESSORS):
            for use in node.stores:
                if isinstance(use.spec, TableSpec):
                    _check_table(node, use.spec.name or "", tables)
                else:
                    _check_store(node, attached_name(node, use), use.spec, specs, tables)
        elif isinstance(node, StreamTableJoin | TableTableJoin):
            for table in inputs(node)[isinstance(node, StreamTableJoin) :]:
                _check_looked_up(table, node)


def _check_table(node: Node, table: str, tables: dict[str, Node]) -> None:
    if table not in tables:
        names = ", ".join(sorted(tables)) or "none"
        raise DefinitionError(
            f"the processor of {node.name!r} uses the table {table!r}, which the app does not store (it has: {names})",
            hint="give the table a name=, and use that name",
            table=table,
        )
    if isinstance(tables[table], GlobalTableSource):
        raise DefinitionError(
            f"the processor of {node.name!r} declares the global table {table!r}, which needs no declaration",
            hint=f"leave the declaration out: self.context.store({table!r})",
            table=table,
        )


def _check_store(
    node: Node, store: str, spec: StoreSpec, specs: dict[str, tuple[Node, StoreSpec]], tables: dict[str, Node]
) -> None:
    if store in tables and store in store_names(tables[store])[:1]:
        raise DefinitionError(
            f"the processor of {node.name!r} declares a store {store!r}, but that is the name of a table",
            hint=f"choose another name, or read the table with table_store({store!r})",
            store=store,
        )
    first, first_spec = specs.setdefault(store, (node, spec))
    if str(StoreUse(store, first_spec)) != str(StoreUse(store, spec)):
        raise DefinitionError(
            f"{first.name!r} and {node.name!r} share the store {store!r}, but declare it differently",
            hint="declare it once and use that declaration in both classes",
            store=store,
        )


def _check_looked_up(table: Node, reader: Node) -> None:
    """Reject lookups that would call a transformer with stores, since each lookup could change them."""
    if keeps_table(table):
        return
    if isinstance(table, TransformValues) and table.stores:
        raise DefinitionError(
            f"{reader.name!r} looks up rows of {table.name!r}, whose transformer has stores and would run each time",
            hint="give transform_values() a name=, so that its rows are stored",
            node=table.name,
        )
    for source in inputs(table):
        _check_looked_up(source, reader)
