"""Wire the operators of a stage: each node's function calls those of its readers, depth first, in written order.

An input has two ways in: for single records, and if the first steps can do that for whole runs of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from millstream.operators import (
    aggregates,
    foreign_keys,
    global_joins,
    processors,
    sessions,
    sinks,
    sliding,
    stateless,
    stateless_columns,
    stream_joins,
    suppress,
    table_joins,
    table_steps,
    tables,
    time_windows,
    transformers,
    windows,
)
from millstream.operators.columns import Port, ProcessRun, column_operator, one_by_one
from millstream.operators.probe import Probe
from millstream.operators.processors import Children
from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.node import Node, inputs
from millstream.plan.processors import Process as ProcessNode
from millstream.plan.processors import ProcessValues
from millstream.plan.sinks import Sink
from millstream.plan.sources import StreamSource, TableSource
from millstream.plan.stages import Stage
from millstream.plan.stateful import ToStream
from millstream.plan.stateless import Branch, Repartition, Split

FAMILIES = (
    aggregates, foreign_keys, global_joins, processors, sessions, sinks, sliding, stateless, stateless_columns,
    stream_joins, suppress, table_joins, table_steps, tables, time_windows, transformers, windows,
)  # fmt: skip
"""Importing a family registers its operators."""


class Head(NamedTuple):
    """What records that arrive at an input set off: one of them, and a run of them if there is a way for that."""

    process: Process
    process_run: ProcessRun | None


def build(stage: Stage, runtime: Runtime) -> dict[Node, Head]:
    """Return the way into each input of a stage."""
    wiring = _Wiring(stage, runtime)
    return {node: wiring.head(node) for node in stage.inputs}


class _Wiring:
    """The operators of a stage, made when somebody first sends to them."""

    def __init__(self, stage: Stage, runtime: Runtime) -> None:
        self._inside = set(stage.nodes)
        self._runtime = runtime
        self._built: dict[Node, tuple[Process | Port, ...]] = {}
        self._readers: dict[Node, list[tuple[Node, Process | Port]]] = {}

    def head(self, node: Node) -> Head:
        """Return the way into an input; a probe wants to see each record."""
        assert isinstance(node, StreamSource | Repartition | TableSource)
        process = _single(self._ports(node)[0]) if isinstance(node, TableSource) else self._after(node)
        if self._runtime.probe is not None:
            return Head(self._runtime.probe.timed(node, process), None)
        return Head(process, None if isinstance(node, TableSource) else self._runs_after(node))

    def _ports(self, node: Node) -> tuple[Process | Port, ...]:
        if node not in self._built:
            made = operator(node, self._forward_of(node), self._runtime)
            self._built[node] = made if type(made) is tuple else (made,) * max(1, len(inputs(node)))
        return self._built[node]

    def _ports_after(self, node: Node) -> list[tuple[Node, Process | Port]]:
        known = self._readers.get(node)
        if known is None:
            found = (each for each in self._runtime.plan.readers[node] if each[0] in self._inside)
            known = list(dict.fromkeys((reader, self._ports(reader)[port]) for reader, port in found))
            self._readers[node] = known
        return known

    def _readers_of(self, node: Node) -> list[tuple[Node, Process]]:
        readers = [(reader, _single(port)) for reader, port in self._ports_after(node)]
        return readers if self._runtime.probe is None else _measured(node, readers, self._runtime.probe)

    def _after(self, node: Node) -> Process:
        return _fan_out(tuple(process for _, process in self._readers_of(node)))

    def _forward_of(self, node: Node) -> Any:
        if isinstance(node, Split):
            return _branches(node, self._runtime, self._after)
        if isinstance(node, ProcessNode | ProcessValues):
            return Children(self._after(node), _named(self._readers_of(node), self._runtime))
        return self._after(node) if not isinstance(node, Repartition) else _ignore

    def _runs_after(self, node: Node) -> ProcessRun | None:
        """Return what a run of records sets off, or None if the only thing to do is to take them one by one."""
        ports = self._ports_after(node)
        if len(ports) != 1:
            return None
        [(reader, port)] = ports
        if isinstance(port, Port):
            return port.over_runs(self._results_after(reader))
        following = None if isinstance(reader, Repartition) else self._runs_after(reader)
        forward = following or one_by_one(self._forward_of(reader), self._runtime.context)
        return column_operator(reader, forward, port, self._runtime)

    def _results_after(self, table: Node) -> ProcessRun | None:
        """Return what a run of changes of a table sets off, if it is read as a stream that leaves the task as runs.

        No step on the way may have a look at state: that of the run is ahead of all its results but the last.
        """
        ports = self._ports_after(table)
        return self._columns_after(table) if len(ports) == 1 and isinstance(ports[0][0], ToStream) else None

    def _columns_after(self, node: Node) -> ProcessRun | None:
        ports = self._ports_after(node)
        if len(ports) != 1 or isinstance(ports[0][1], Port):
            return None
        [(reader, port)] = ports
        forward = _ignore if isinstance(reader, Repartition | Sink) else self._columns_after(reader)
        return None if forward is None else column_operator(reader, forward, _single(port), self._runtime)


def _single(port: Process | Port) -> Process:
    return port.process if isinstance(port, Port) else port


def _measured(node: Node, readers: list[tuple[Node, Process]], probe: Probe) -> list[tuple[Node, Process]]:
    return [(reader, probe.edge(node, reader, process)) for reader, process in readers]


def _named(readers: list[tuple[Node, Process]], runtime: Runtime) -> dict[str, Process]:
    """Return readers by name; a step that is reached over an edge of its own is meant by its own name too."""
    named: dict[str, Process] = {}
    for reader, process in readers:
        named[reader.name or ""] = process
        behind = runtime.plan.readers[reader] if isinstance(reader, Repartition) else []
        if len(behind) == 1:
            named[behind[0][0].name or ""] = process
    return named


def _branches(split: Split, runtime: Runtime, after: Callable[[Node], Process]) -> tuple[Process, Process]:
    readers = [reader for reader, _ in runtime.plan.readers[split]]
    return (
        _fan_out(tuple(after(one) for one in readers if isinstance(one, Branch) and one.matched)),
        _fan_out(tuple(after(one) for one in readers if isinstance(one, Branch) and not one.matched)),
    )


def _fan_out(readers: tuple[Process, ...]) -> Process:
    if len(readers) == 1:
        return readers[0]

    def forward(*record: Any) -> None:
        for reader in readers:
            reader(*record)

    return forward if readers else _ignore


def _ignore(*_record: Any) -> None:
    """Nobody reads here."""
