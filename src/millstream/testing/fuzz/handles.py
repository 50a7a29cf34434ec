"""The nodes that a random topology can continue from, by kind."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

Node = dict[str, Any]

_SOURCES = ("stream", "table", "global_table")
_KEEPS_TYPE = (
    "filter", "filter_not", "select_key", "merge", "split", "repartition", "to_table", "to_stream", "suppress",
    "group_by", "group_by_key", "windowed_by", "emit", "reduce",
)  # fmt: skip
"""Verbs whose results have the declared type of their input."""


class Handle(NamedTuple):
    """A node that other nodes can read."""

    id: str
    is_windowed: bool = False
    """Whether keys are windowed."""
    closes: bool = False
    """Whether it is a table of windows, whose results ``suppress`` can hold back until the window closes."""
    is_versioned: bool = False
    can_join: bool = True
    """False for windowed cogroups: Kafka Streams cannot look up their rows in a join of tables."""


class Draft:
    """The nodes of a topology, and the handles to continue from."""

    def __init__(self, pick: random.Random) -> None:
        self.pick = pick
        self.nodes: list[Node] = []
        self.streams: list[Handle] = []
        self.tables: list[Handle] = []
        self.global_tables: list[tuple[str, str]] = []
        """(id, name of the store)"""
        self.table_stores: list[str] = []
        """Stores of tables with text keys, which processors can read."""
        self.topics: list[str] = []
        self.read: set[str] = set()
        """The nodes that another node reads."""
        self.origins: dict[str, frozenset[str]] = {}
        """The topics that each node depends on."""
        self.texts: set[str] = set()
        """The nodes whose values are declared as text, as those of sources are."""
        self.numbers: set[str] = set()
        """The nodes whose values are declared as numbers, as counts are."""
        self.has_wall_clock = False

    def add(self, op: str, source: str | list[str] | None = None, **parameters: Any) -> str:
        """Add a node and return its id."""
        node: Node = {"id": f"n{len(self.nodes)}", "op": op}
        sources = [source] if isinstance(source, str) else source or []
        if source is not None:
            node["in"] = source
        self.read.update(sources)
        self.nodes.append({**node, **parameters})
        topics = [self.origins[name] for name in sources] or [frozenset([parameters["topic"]])]
        branches = [parameters.get("default"), *(branch["id"] for branch in parameters.get("branches", ()))]
        names = [node["id"], *filter(None, branches)]
        self.origins.update(dict.fromkeys(names, frozenset().union(*topics)))
        if op in _SOURCES or (op in _KEEPS_TYPE and self.texts.issuperset(sources)):
            self.texts.update(names)
        if op == "count" or (op in _KEEPS_TYPE and self.numbers.intersection(sources)):
            self.numbers.update(names)
        return str(node["id"])

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self.pick.random() < probability

    def store(self, *, windowed: bool = False) -> dict[str, str]:
        """Return a name for the store of the next node, or nothing; windowed keys of streams have no named store."""
        if windowed or self.chance(0.5):
            return {}
        return {"store": f"s{len(self.nodes)}"}

    def stream(self, *, plain: bool = False) -> Handle:
        """Choose a stream; the newest are more likely, so that topologies become deep. ``plain``: text keys."""
        return self._choose([handle for handle in self.streams if not (plain and handle.is_windowed)])

    def table(self, *, plain: bool = False) -> Handle:
        """Choose a table."""
        return self._choose([handle for handle in self.tables if not (plain and handle.is_windowed)])

    def _choose(self, handles: list[Handle]) -> Handle:
        if len(handles) > 3 and self.chance(0.6):
            return self.pick.choice(handles[-3:])
        return self.pick.choice(handles)
