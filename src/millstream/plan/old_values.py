"""Which tables tell their readers the old value with the new one.

Groupings, and the sides of joins whose rows are there in any case, need it and ask for it all the way up. A filter
takes it where it is to be had, so that it need not send a tombstone for a row that was not there; whether a table of a
topic has it depends on whether it is stored by the time the filter is written, as in Kafka Streams.
"""

from __future__ import annotations

from millstream.plan.foreign_keys import ForeignKeyAnswer, ForeignKeyMissing, ForeignKeySubscribe
from millstream.plan.node import Node, Nodes, inputs
from millstream.plan.processors import TransformValues
from millstream.plan.sources import TableSource
from millstream.plan.stateful import AGGREGATIONS, StreamTableJoin, ToTable
from millstream.plan.suppress import Suppress
from millstream.plan.tables import TableAggregate, TableFilter, TableGroupBy, TableMapValues, TableTableJoin


def sending_old_values(nodes: Nodes) -> frozenset[Node]:
    """Return the tables that tell old values."""
    tables = _Tables()
    for node in nodes:
        if isinstance(node, TableSource | ToTable) and (node.named or node.history is not None):
            tables.stored.add(node)
        elif isinstance(node, TableFilter):
            if tables.ask(node.source, insist=False):
                tables.sending.add(node)
        elif isinstance(node, TableTableJoin):
            tables.look_up(node.left)
            tables.look_up(node.right)
            for asked in _kept_rows(node):
                tables.ask(asked, insist=True)
        elif isinstance(node, StreamTableJoin):
            tables.look_up(node.table)
        elif isinstance(node, ASKING):
            tables.ask(node.right if isinstance(node, ForeignKeyAnswer) else node.source, insist=True)
    return frozenset(tables.sending)


def regrouped_tables(nodes: Nodes) -> frozenset[Node]:
    """Return the tables whose rows end up in ready aggregations of groups, also through steps that change them.

    These can only take out what was added: a first result has no old one there, not even the initial value.
    """
    found: set[Node] = set()
    waiting = [node.source for node in nodes if isinstance(node, TableAggregate) and node.ready is not None]
    while waiting:
        table = waiting.pop()
        if table not in found:
            found.add(table)
            if not isinstance(table, (*AGGREGATIONS, ToTable, TableAggregate)):
                waiting.extend(inputs(table))
    return frozenset(found)


ASKING = (TableGroupBy, Suppress, ForeignKeySubscribe, ForeignKeyMissing, ForeignKeyAnswer)
"""Nodes that need the old value of each row."""


def _kept_rows(join: TableTableJoin) -> Nodes:
    """Return the sides of a join whose rows are in the result in any case."""
    return {"inner": (), "left": (join.left,), "outer": (join.left, join.right)}[join.kind]


class _Tables:
    def __init__(self) -> None:
        self.stored: set[Node] = set()
        self.sending: set[Node] = set()

    def look_up(self, node: Node) -> None:
        """Have the rows of a table stored: its own, or those of the tables that they are computed from."""
        if isinstance(node, TableFilter | TableMapValues | TransformValues | TableTableJoin) and not node.stored:
            for table in inputs(node):
                self.look_up(table)
        else:
            self.stored.add(node)

    def ask(self, node: Node, *, insist: bool) -> bool:
        """Have a table tell old values; without ``insist`` only if that costs nothing."""
        if isinstance(node, TableSource | ToTable):
            if not insist and node not in self.stored:
                return False
            self.stored.add(node)
        elif isinstance(node, TableFilter | TableMapValues | TransformValues) and not node.stored:
            if not self.ask(node.source, insist=insist):
                return node in self.sending
        elif isinstance(node, TableTableJoin):
            self.ask(node.left, insist=True)
            self.ask(node.right, insist=True)
        self.sending.add(node)
        return True
