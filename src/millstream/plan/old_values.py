"""The tables that send their readers the old value with the new one.

Groupings, and the sides of joins whose rows are always in the result, need old values and request them from all tables
upstream. A filter uses them where they cost nothing, so that it sends no tombstone for a row that it had dropped; for
the table of a topic or a join by foreign key this depends on whether it is stored when the filter is defined, as in
Kafka Streams.
"""

from __future__ import annotations

from millstream.plan.foreign_keys import ForeignKeyAnswer, ForeignKeyMissing, ForeignKeyResult, ForeignKeySubscribe
from millstream.plan.node import Node, Nodes, inputs
from millstream.plan.processors import TransformValues
from millstream.plan.sources import TableSource
from millstream.plan.stateful import AGGREGATIONS, StreamTableJoin, ToTable
from millstream.plan.suppress import Suppress
from millstream.plan.tables import TableAggregate, TableFilter, TableGroupBy, TableMapValues, TableTableJoin


def sending_old_values(nodes: Nodes) -> frozenset[Node]:
    """Return the tables that send old values."""
    tables = _Tables()
    for node in nodes:
        if isinstance(node, _STORED_ON_DEMAND):
            if node.named or getattr(node, "history", None) is not None:
                tables.stored.add(node)
        elif isinstance(node, TableFilter):
            if tables.request(node.source, required=node.needs_old):
                tables.sending.add(node)
        elif isinstance(node, TableTableJoin):
            tables.look_up(node.left)
            tables.look_up(node.right)
            for side in _kept_sides(node):
                tables.request(side, required=True)
        elif isinstance(node, StreamTableJoin):
            tables.look_up(node.table)
        elif isinstance(node, NEEDS_OLD):
            tables.request(node.right if isinstance(node, ForeignKeyAnswer) else node.source, required=True)
    return frozenset(tables.sending)


def regrouped_tables(nodes: Nodes) -> frozenset[Node]:
    """Return the tables whose rows are grouped into built-in aggregations, directly or through other steps.

    These subtract only what was added to them: a first result has no old value there, not even the initial one.
    """
    tables: set[Node] = set()
    pending = [node.source for node in nodes if isinstance(node, TableAggregate) and node.ready is not None]
    while pending:
        table = pending.pop()
        if table not in tables:
            tables.add(table)
            if not isinstance(table, (*AGGREGATIONS, ToTable, TableAggregate)):
                pending.extend(inputs(table))
    return frozenset(tables)


NEEDS_OLD = (TableGroupBy, Suppress, ForeignKeySubscribe, ForeignKeyMissing, ForeignKeyAnswer)
"""Nodes that need the old value of each row."""
_STORED_ON_DEMAND = (TableSource, ToTable, ForeignKeyResult)
"""Tables that Kafka Streams stores only if they have a name or a reader needs their rows."""


def _kept_sides(join: TableTableJoin) -> Nodes:
    """Return the sides of a join whose rows are always in the result."""
    return {"inner": (), "left": (join.left,), "outer": (join.left, join.right)}[join.kind]


class _Tables:
    def __init__(self) -> None:
        self.stored: set[Node] = set()
        self.sending: set[Node] = set()

    def look_up(self, node: Node) -> None:
        """Store the rows of a table: its own, or those of the tables that they are computed from."""
        if isinstance(node, TableFilter | TableMapValues | TransformValues | TableTableJoin) and not node.stored:
            for table in inputs(node):
                self.look_up(table)
        else:
            self.stored.add(node)

    def request(self, node: Node, *, required: bool) -> bool:
        """Make a table send old values; if they are not ``required``, only if that costs nothing."""
        if isinstance(node, _STORED_ON_DEMAND):
            if not required and node not in self.stored:
                return False
            self.stored.add(node)
        elif isinstance(node, TableFilter | TableMapValues | TransformValues) and not node.stored:
            if not self.request(node.source, required=required):
                return node in self.sending
        elif isinstance(node, TableTableJoin):
            self.request(node.left, required=True)
            self.request(node.right, required=True)
        self.sending.add(node)
        return True
