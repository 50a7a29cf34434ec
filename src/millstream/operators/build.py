"""Wire the operators of a stage: each node's function calls those of its readers, depth first, in written order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.operators import (
    foreign_keys,
    global_joins,
    processors,
    sessions,
    sinks,
    sliding,
    stateless,
    stream_joins,
    suppress,
    table_joins,
    table_steps,
    tables,
    transformers,
    windows,
)
from millstream.operators.probe import Probe
from millstream.operators.processors import Children
from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.node import Node, inputs
from millstream.plan.processors import Process as ProcessNode
from millstream.plan.processors import ProcessValues
from millstream.plan.sources import StreamSource, TableSource
from millstream.plan.stages import Stage
from millstream.plan.stateless import Branch, Repartition, Split

FAMILIES = (
    foreign_keys, global_joins, processors, sessions, sinks, sliding, stateless, stream_joins, suppress, table_joins,
    table_steps,
    tables, transformers, windows,
)  # fmt: skip
"""Importing a family registers its operators."""


def build(stage: Stage, runtime: Runtime) -> dict[Node, Process]:
    """Return for each input of a stage what a record that arrives there sets off."""
    inside = set(stage.nodes)
    built: dict[Node, tuple[Process, ...]] = {}

    def ports(node: Node) -> tuple[Process, ...]:
        if node not in built:
            made = operator(node, _forward_of(node), runtime)
            built[node] = made if isinstance(made, tuple) else (made,) * max(1, len(inputs(node)))
        return built[node]

    def readers_of(node: Node) -> list[tuple[Node, Process]]:
        found = ((reader, ports(reader)[port]) for reader, port in runtime.plan.readers[node] if reader in inside)
        readers = list(dict.fromkeys(found))
        return readers if runtime.probe is None else _measured(node, readers, runtime.probe)

    def after(node: Node) -> Process:
        return _fan_out(tuple(process for _, process in readers_of(node)))

    def _forward_of(node: Node) -> Any:
        if isinstance(node, Split):
            return _branches(node, runtime, after)
        if isinstance(node, ProcessNode | ProcessValues):
            return Children(after(node), _named(readers_of(node), runtime))
        return after(node) if not isinstance(node, Repartition) else _ignore

    heads: dict[Node, Process] = {}
    for head in stage.inputs:
        if isinstance(head, TableSource):
            heads[head] = ports(head)[0]
        else:
            assert isinstance(head, StreamSource | Repartition)
            heads[head] = after(head)
    return heads if runtime.probe is None else {head: runtime.probe.timed(head, heads[head]) for head in heads}


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
