"""Wire the operators of a stage: each node's function calls those of its readers, depth first, in definition order.

An input has two functions: one for single records and, if its first steps support that, one for column batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from millstream.operators import (
    aggregates,
    alerts,
    batched,
    foreign_keys,
    global_joins,
    processors,
    select,
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
from millstream.operators.coded import ProcessCoded
from millstream.operators.columns import (
    JoinSide,
    Port,
    ProcessColumns,
    ProcessSides,
    column_operator,
    one_side,
    record_by_record,
)
from millstream.operators.fan_out import are_independent, one_after_the_other
from millstream.operators.probe import Probe
from millstream.operators.processors import Children
from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.node import Node
from millstream.plan.processors import Process as ProcessNode
from millstream.plan.processors import ProcessValues
from millstream.plan.sinks import Sink
from millstream.plan.sources import StreamSource, TableSource
from millstream.plan.stages import Stage
from millstream.plan.stateful import ToStream
from millstream.plan.stateless import Branch, Repartition, Split
from millstream.plan.tables import TableFilter, TableMapValues

FAMILIES = (
    aggregates, alerts, batched, foreign_keys, global_joins, processors, select, sessions, sinks, sliding, stateless,
    stateless_columns, stream_joins, suppress, table_joins, table_steps, tables, time_windows, transformers, windows,
)  # fmt: skip
"""Importing a family registers its operators."""


class EntryPoint(NamedTuple):
    """The functions for records of an input; ``process_columns`` is None if records are processed one by one."""

    process: Process
    process_columns: ProcessColumns | None
    process_coded: ProcessCoded | None = None
    """Processes records of which only key and time matter; None if they become lists first."""
    process_sides: ProcessSides | None = None
    """Processes records of this input and of the other one of a join together, if nothing comes before the join."""
    side: int = 0
    """The side of the join."""


def build(stage: Stage, runtime: Runtime) -> dict[Node, EntryPoint]:
    """Return the entry point of each input of a stage."""
    wiring = _Wiring(stage, runtime)
    return {node: wiring.entry_point(node) for node in stage.inputs}


class _Wiring:
    """The operators of a stage, created when their first input is wired."""

    def __init__(self, stage: Stage, runtime: Runtime) -> None:
        self._inside = set(stage.nodes)
        self._runtime = runtime
        self._built: dict[Node, Any] = {}
        """What each node does with a record: for all its inputs, or a tuple with one for each."""
        self._readers: dict[Node, list[tuple[Node, Process | Port]]] = {}
        self._sides: dict[Node, ProcessSides] = {}

    def entry_point(self, node: Node) -> EntryPoint:
        """Return the entry point of an input; with a probe, records are processed one by one."""
        assert isinstance(node, StreamSource | Repartition | TableSource)
        process = _single(self._port(node, 0)) if isinstance(node, TableSource) else self._after(node)
        if self._runtime.probe is not None:
            return EntryPoint(self._runtime.probe.timed(node, process), None)
        if isinstance(node, TableSource):
            return EntryPoint(process, None)
        return EntryPoint(process, self._columns_after(node), self._coded_after(node), *self._sides_after(node))

    def _coded_after(self, node: Node) -> ProcessCoded | None:
        """Return what processes coded records from a node, None if these become lists first."""
        [(reader, port), *others] = self._ports_after(node) or [(node, _ignore)]
        if others or not isinstance(port, Port) or port.make_process_coded is None:
            return None
        return port.make_process_coded(self._result_columns_after(reader))

    def _sides_after(self, node: Node) -> tuple[ProcessSides | None, int]:
        """Return what processes both inputs of the join that is the only reader of a node, and the node's side."""
        [(reader, port), *others] = self._ports_after(node) or [(node, _ignore)]
        if others or not isinstance(port, Port) or port.join_side is None:
            return None, 0
        return self._process_sides(reader, port.join_side), port.join_side.side

    def _process_sides(self, join: Node, side: JoinSide) -> ProcessSides:
        if join not in self._sides:
            self._sides[join] = side.make_process_sides(self._stream_after(join))
        return self._sides[join]

    def _stream_after(self, node: Node) -> ProcessColumns:
        """Return what processes column batches from a node, one record after the other if that is necessary."""
        following = None if isinstance(node, Repartition) else self._columns_after(node)
        return following or record_by_record(self._forward_of(node), self._runtime.context)

    def _port(self, node: Node, number: int) -> Process | Port:
        """Return what a node does with the records of one of its inputs."""
        ports = self._built.get(node)
        if ports is None:
            ports = self._built[node] = operator(node, self._forward_of(node), self._runtime)
        port: Process | Port = ports[number] if type(ports) is tuple else ports
        return port

    def _ports_after(self, node: Node) -> list[tuple[Node, Process | Port]]:
        readers = self._readers.get(node)
        if readers is None:
            inside = (item for item in self._runtime.plan.readers[node] if item[0] in self._inside)
            readers = list(dict.fromkeys((reader, self._port(reader, port)) for reader, port in inside))
            self._readers[node] = readers
        return readers

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

    def _columns_after(self, node: Node) -> ProcessColumns | None:
        """Return what processes column batches from a node, None if its records are processed one by one."""
        ports = self._ports_after(node)
        if len(ports) == 1:
            return self._columns_of(*ports[0])
        if (
            not ports
            or isinstance(node, Split)
            or not are_independent([reader for reader, _ in ports], self._inside_of)
        ):
            return None
        columns = [self._columns_of(reader, port) for reader, port in ports]
        if not any(columns):
            return None
        context = self._runtime.context
        processes = [
            process or record_by_record(_single(port), context)
            for process, (_, port) in zip(columns, ports, strict=True)
        ]
        return one_after_the_other(processes, context)

    def _inside_of(self, node: Node) -> list[Node]:
        """Return the readers of a node in this stage."""
        return [] if isinstance(node, Repartition) else [reader for reader, _ in self._ports_after(node)]

    def _columns_of(self, reader: Node, port: Process | Port) -> ProcessColumns | None:
        """Return what a reader does with column batches, None if it processes records one by one."""
        if not isinstance(port, Port):
            return column_operator(reader, self._stream_after(reader), port, self._runtime)
        if port.join_side is not None:
            return one_side(self._process_sides(reader, port.join_side), port.join_side.side)
        return port.make_process_columns(self._result_columns_after(reader))

    def _result_columns_after(self, table: Node) -> ProcessColumns | None:
        """Return what processes column batches of a table's changes, if these leave the task as a stream, as columns.

        No step on the way may read state: it is already that after the last change of the batch.
        """
        ports = self._ports_after(table)
        is_plain = len(ports) == 1 and isinstance(ports[0][0], ToStream | TableMapValues | TableFilter)
        return self._columns_to_exit(table) if is_plain else None

    def _columns_to_exit(self, node: Node) -> ProcessColumns | None:
        ports = self._ports_after(node)
        if len(ports) != 1 or isinstance(ports[0][1], Port):
            return None
        [(reader, port)] = ports
        forward = _ignore if isinstance(reader, Repartition | Sink) else self._columns_to_exit(reader)
        return None if forward is None else column_operator(reader, forward, _single(port), self._runtime)


def _single(port: Process | Port) -> Process:
    return port.process if isinstance(port, Port) else port


def _measured(node: Node, readers: list[tuple[Node, Process]], probe: Probe) -> list[tuple[Node, Process]]:
    return [(reader, probe.edge(node, reader, process)) for reader, process in readers]


def _named(readers: list[tuple[Node, Process]], runtime: Runtime) -> dict[str, Process]:
    """Return readers by name; a step behind a repartition edge that only it reads also has its own name."""
    named: dict[str, Process] = {}
    for reader, process in readers:
        named[reader.name or ""] = process
        edge_readers = runtime.plan.readers[reader] if isinstance(reader, Repartition) else []
        if len(edge_readers) == 1:
            named[edge_readers[0][0].name or ""] = process
    return named


def _branches(split: Split, runtime: Runtime, after: Callable[[Node], Process]) -> tuple[Process, Process]:
    branches = [reader for reader, _ in runtime.plan.readers[split] if isinstance(reader, Branch)]
    return (
        _fan_out(tuple(after(branch) for branch in branches if branch.matched)),
        _fan_out(tuple(after(branch) for branch in branches if not branch.matched)),
    )


def _fan_out(readers: tuple[Process, ...]) -> Process:
    if len(readers) == 1:
        return readers[0]

    def forward(*record: Any) -> None:
        for reader in readers:
            reader(*record)

    return forward if readers else _ignore


def _ignore(*_record: Any) -> None:
    """Ignore records that no step reads."""
