"""Describe a plan as text, JSON and Mermaid, all from one view."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, Literal

import msgspec

from millstream.aggregations import state_signature
from millstream.functions import Function
from millstream.plan.node import Node, inputs, verb_of
from millstream.plan.sinks import SINKS
from millstream.plan.stages import Stage, keeps_table, store_names
from millstream.plan.stateless import Repartition
from millstream.plan.topology import Plan
from millstream.processors import StoreUse
from millstream.serdes import READABLE, Serde, type_name

PLAN_VERSION = 1
_SINKS = tuple(verb_of(kind) for kind in SINKS)
Format = Literal["text", "json", "mermaid"]


def view(plan: Plan) -> dict[str, Any]:
    """Return the plan as plain data: versioned and stable, the source of all other formats."""
    stage_of = {node: stage.name for stage in plan.stages for node in stage.nodes}
    return {
        "version": PLAN_VERSION,
        "nodes": [_node(node, plan) for node in plan.nodes],
        "stages": [_stage(stage, stage_of, plan) for stage in plan.stages],
    }


def fingerprint(plan: Plan) -> str:
    """Return a digest that is equal for equal plans."""
    return hashlib.sha256(msgspec.json.encode(view(plan), order="sorted")).hexdigest()[:16]


def describe(plan: Plan, format: Format = "text") -> str:
    """Return a description of the plan for people (``text``, ``mermaid``) or programs (``json``)."""
    data = view(plan)
    if format == "json":
        return msgspec.json.format(msgspec.json.encode(data)).decode()
    return _mermaid(data) if format == "mermaid" else _text(data)


def _node(node: Node, plan: Plan) -> dict[str, Any]:
    settings = {
        field.name: _setting(value)
        for field in dataclasses.fields(node)
        if (value := getattr(node, field.name)) not in (None, ()) and field.name != "name" and not _is_input(value)
    }
    return {
        "name": node.name,
        "op": f"{node.verb}/{PLAN_VERSION}",
        "in": [source.name for source in inputs(node)],
        "table": keeps_table(node),
        **settings,
        **({"carries": _serde_names(node, plan)} if isinstance(node, Repartition) else {}),
    }


def _serde_names(node: Node, plan: Plan) -> list[str | None]:
    """Return the names of the serdes of key and value of the records that leave a node."""
    return [None if serde is None else serde.name for serde in plan.declared[node]]


def _is_input(value: object) -> bool:
    return isinstance(value, Node) or (isinstance(value, tuple) and any(isinstance(item, Node) for item in value))


def _setting(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_setting(item) for item in value]
    if isinstance(value, str | int | bool):
        return value
    if isinstance(value, StoreUse):
        return str(value)
    if isinstance(value, Function):
        return value.name
    if isinstance(value, type):
        return type_name(value)
    if isinstance(value, msgspec.Struct) and not isinstance(value, Serde):
        return msgspec.json.decode(msgspec.json.encode(value))  # windows, aggregations: as they are in a stored plan
    return value.name if isinstance(value, Serde) else Function(value, 0).name


def _stage(stage: Stage, stage_of: dict[Node, str], plan: Plan) -> dict[str, Any]:
    return {
        "name": stage.name,
        "level": stage.level,
        **({"round": stage.round} if stage.round else {}),
        "topics": list(stage.topics),
        "reads": {node.name: stage_of[node] for node in stage.inputs if node in stage_of},
        "nodes": [] if stage.round else [node.name for node in (*stage.heads, *stage.nodes)],
        "tables": [] if stage.round else [node.name for node in stage.stores],
        "stores": {} if stage.round else _stores(stage, plan),
    }


def _stores(stage: Stage, plan: Plan) -> dict[str, Any]:
    """Return the properties that decide whether a store can be used after a change of the topology."""
    shapes: dict[str, Any] = {}
    for node in (*stage.heads, *stage.nodes):
        key = plan.declared[inputs(node)[0] if inputs(node) else node].key or READABLE  # the key inside windows
        value = _serde_names(node, plan)[1]
        windows, ready = getattr(node, "windows", None), getattr(node, "ready", None)
        options = {} if windows is None else {"windows": _setting(windows)}
        options |= {} if ready is None else {"ready": state_signature(ready)}
        aggregated = _aggregated(node)
        options |= {} if ready is None or aggregated is None else {"of": aggregated}
        for name in store_names(node):
            shapes[name] = {"op": node.verb, "key": key.name, "value": value, **options}
    for name, spec in stage.processor_stores.items():
        window = {} if spec.kept_for is None else {"windows": {"kept_for": spec.kept_for}}
        shapes[name] = {"op": spec.kind, "key": None, "value": spec.value and spec.value.name, **window}
    return shapes


def _aggregated(node: Node) -> str | None:
    """Return what a node aggregates where that is data: expressions of SQL, but not Python functions."""
    source = inputs(node)[0] if inputs(node) else node
    while isinstance(source, Repartition):
        source = source.source
    selection = getattr(source, "selection", None) or getattr(getattr(source, "value_of", None), "selection", None)
    aggregated: str | None = getattr(selection, "aggregated", None)
    return aggregated


def _text(data: dict[str, Any]) -> str:
    nodes = {node["name"]: node for node in data["nodes"]}
    global_tables = _global_tables(data)
    lines = [f"global table {node['name']} on each host reads topic {topic}" for topic, node in global_tables.items()]
    for stage in data["stages"]:
        reads = [topic for name in stage["nodes"] if not nodes[name]["in"] for topic in _topics(nodes[name])]
        reads += [f"{edge} from stage {upstream}" for edge, upstream in stage["reads"].items()]
        again = ", again" if "round" in stage else ""
        lines.append(f"stage {stage['name']} (level {stage['level']}{again}) reads {', '.join(reads)}")
        for name in stage["nodes"]:
            node = nodes[name]
            kind = node["op"].split("/")[0]
            if name in stage["reads"] or (kind == "stream_source" and node.get("topics") == [name]):
                continue
            target = _target(kind, node)
            table = f" [table {name}]" if node["table"] else ""
            if stores := node.get("stores"):
                table += f" [stores {', '.join(store.partition(':')[0] for store in stores)}]"
            sources = node["in"] or _topics(node)
            if kind == "stream_global_join":
                sources = [*sources, f"global table {global_tables[node['topic']]['name']}"]
            lines.append(f"  {kind:<16} {name} ← {', '.join(sources)}{table}{target}")
    return "\n".join(lines) + "\n"


def _target(kind: str, node: dict[str, Any]) -> str:
    if kind == "repartition":
        return " → next stage"
    system = f" → {node['system']}" if "system" in node else ""
    guarantee = f" ({node['guarantee']})" if "guarantee" in node else ""
    return f" → topic {node['topic']}{system}{guarantee}" if kind in _SINKS else ""


def _topics(source: dict[str, Any]) -> list[str]:
    if "pattern" in source:
        return [f"topics like {source['pattern']}"]
    return [f"topic {topic}" for topic in source["topics"]]


def _mermaid(data: dict[str, Any]) -> str:
    ids = {node["name"]: f"n{number}" for number, node in enumerate(data["nodes"])}
    written_by = {name: stage for stage in data["stages"] for name in stage["nodes"] if name not in stage["reads"]}
    lines = ["flowchart LR"]
    for number, stage in enumerate(data["stages"]):
        if "round" in stage:
            continue
        lines.append(f'  subgraph s{number}["{stage["name"]}"]')
        lines += [_mermaid_node(node, ids) for node in data["nodes"] if written_by.get(node["name"]) is stage]
        lines.append("  end")
    global_tables = _global_tables(data)
    lines += [_mermaid_node(node, ids) for node in global_tables.values()]
    lines += [
        f"  {ids[global_tables[node['topic']]['name']]} -.-> {ids[node['name']]}"
        for node in data["nodes"]
        if node["op"].startswith("stream_global_join/")
    ]
    for node in data["nodes"]:
        arrow = "==>" if node["op"].startswith("repartition/") else "-->"
        lines += [f"  {ids[source]} {arrow} {ids[node['name']]}" for source in node["in"]]
    return "\n".join(lines) + "\n"


def _global_tables(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the global tables by topic."""
    return {node["topics"][0]: node for node in data["nodes"] if node["op"].startswith("global_table_source/")}


def _mermaid_node(node: dict[str, Any], ids: dict[str, str]) -> str:
    kind = node["op"].split("/")[0]
    label = node["topic"] if kind in _SINKS else node["name"]
    is_end = kind in (*_SINKS, "stream_source")
    left, right = ("[(", ")]") if node["table"] else ("[/", "/]") if is_end else ("[", "]")
    return f'    {ids[node["name"]]}{left}"{label}"{right}'
