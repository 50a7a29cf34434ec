"""Translate a SELECT whose rows are only shown: the key need not be selected, and the result has no topic."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import msgspec

from millstream.sql import checks
from millstream.sql.catalog import Catalog, Format
from millstream.sql.nodes import AnyExpression, Constant, Query
from millstream.sql.problems import Problem
from millstream.sql.showing import Shown, ordered_nodes, shown
from millstream.sql.translate.flow import QueryFlow
from millstream.sql.translate.outputs import OutputColumn, resolve_item
from millstream.sql.translate.query import QueryTranslator, uses_aggregates
from millstream.sql.translate.reading import Readers
from millstream.sql.tree import sql


class ShownFlow(NamedTuple):
    """The records of a query, and what is shown of them."""

    handle: Any
    is_table: bool
    shown: Shown


class ShowingTranslator(QueryTranslator):
    """Translates a query whose rows are shown; without GROUP BY, aggregates are those of all records."""

    is_endless: ClassVar[bool] = False

    def __init__(self, query: Query, readers: Readers, catalog: Catalog) -> None:
        if query.group_by is None and uses_aggregates(query):
            everything = Constant(kind="integer", text="0", offset=query.offset)
            query = msgspec.structs.replace(query, group_by=(everything,))
        if query.order_by and query.emit is not None:
            raise Problem(query.offset, "ORDER BY needs a query that ends", "remove EMIT, or ORDER BY")
        super().__init__(query, readers, catalog, "query")

    def flow(self) -> ShownFlow:
        """Return the records and what is shown of them."""
        query, flow = self.query, self._flow()
        if query.where is not None:
            flow = flow.filtered(self._condition(flow, query.where))
        if query.group_by is not None:
            flow, outputs, orders = self._shown_groups(flow)
        else:
            flow, outputs, orders = self._shown_records(flow)
        keys = {name for names in flow.keys for name in names}
        result = shown(flow.scope, flow.generator(), outputs, orders, keys)
        result = msgspec.structs.replace(
            result,
            descending=tuple(order.is_descending for order in query.order_by),
            skip=query.skip or 0,
            limit=query.limit,
        )
        return ShownFlow(flow.handle, flow.is_table, result)

    def _shown_records(self, flow: QueryFlow) -> tuple[QueryFlow, list[OutputColumn], list[AnyExpression]]:
        query, outputs = self.query, self._outputs(flow)
        if not flow.is_table:
            flow, outputs, _ = self._unnested(flow, outputs, "")
        generator = flow.generator()
        for output in outputs:
            checks.check_scalar(output.node, "SELECT")
        for node in query.partition_by or ():  # it does not change what is shown, but must be valid
            generator.code(self.names.resolved(node, "PARTITION BY"))
        orders = ordered_nodes(query.order_by, outputs, lambda node: self.names.resolved(node, "ORDER BY"))
        for node in orders:
            checks.check_scalar(node, "ORDER BY")
        return flow, outputs, orders

    def _shown_groups(self, flow: QueryFlow) -> tuple[QueryFlow, list[OutputColumn], list[AnyExpression]]:
        query = self.query
        grouping, outputs, having = self._grouping(flow)

        def resolve(node: AnyExpression) -> AnyExpression:
            resolved = resolve_item(node, self.names, keeps_bounds=query.window is not None, clause="ORDER BY")
            return grouping.replaced(resolved, "ORDER BY")

        orders = ordered_nodes(query.order_by, outputs, resolve)
        types = {f"#{number}": type for number, type in enumerate(grouping.types)}
        table = grouping.aggregated(f"{self.name}.groups", query, Format("JSON").serde(types, is_key=True))
        if having is not None:
            table.generator().condition(having)
            table = table.filtered(sql(having))
        return table, outputs, orders
