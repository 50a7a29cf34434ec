"""More functions and settings for the nodes of random cases, so that they use the whole language of the case files."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from millstream.testing.conformance.cases import Case
from millstream.testing.fuzz import verbs

Node: TypeAlias = dict[str, Any]
_PREDICATES = (*verbs.PREDICATES, "value_in:a,b,x", "none", "value_contains:+", "key_in:a")
_MAPPERS = (*verbs.MAPPERS, "null", "value_field_not:0:a", "value_unless_key_in:a")
_KEYS = (*verbs.KEYS, "key_value", "value_text", "value_field:1", "key_null_if_contains:a", "value_field_not:0:a")
_STREAM_KEYS = ("first_char", "key_value", "value_text", "value_field:0", "key_null_if_contains:a")
_LOOKED_UP = ("const:a", "null", "key_first_char", "value_text", "value_field_not:0:a")
_FOREIGN_KEYS = ("key_first_char", "value_field_not:0:a", "value_field:1", "value_text", "first_char")
_VALUES = ("value_text", "key", "value_field:0", "null_if_contains:x", "key_value")
_HISTORIES = (0, 5, 20)
_CHANGED = 0.4
_NUMBERS = ("count", "punctuate", "ticks", "'number'")


def enriched(case: Case, pick: random.Random) -> Case:
    """Return a case in which some nodes have other functions and settings."""
    by_id, text = {node["id"]: node for node in case.topology}, str((case.topology, case.config))
    can_have_history = not any(word in text for word in ("suppress", "transform_values", "store_get", "cache"))
    has_numbers = any(word in text for word in _NUMBERS)
    keys = _KEYS if has_numbers else (*_KEYS, "null_if_contains:x", "null_if_contains:b")

    def changed(node: Node) -> Node:
        if pick.random() > _CHANGED:
            return node
        history = _history(node, by_id, pick) if can_have_history else {}
        return {**node, **_functions(node, keys, pick), **_settings(node, by_id, pick), **history}

    return msgspec.structs.replace(case, topology=[changed(node) for node in case.topology])


def _functions(node: Node, keys: tuple[str, ...], pick: random.Random) -> Node:
    match node:
        case {"op": "filter" | "filter_not"}:
            return {"fn": pick.choice(_PREDICATES)}
        case {"op": "map_values", "fn": fn} if not fn.startswith("fail"):
            return {"fn": pick.choice(_MAPPERS)}
        case {"op": "map" | "flat_map"}:
            return {"key": pick.choice(keys)}
        case {"op": "select_key"} | {"op": "group_by", "fn": _}:
            return {"fn": pick.choice(keys)}
        case {"op": "group_by"}:
            return {"key": pick.choice(keys), "value": pick.choice(_VALUES)}
        case {"op": "to_stream", "key": _}:
            return {"key": pick.choice(_STREAM_KEYS)}
        case {"foreign_key": _}:
            return {"foreign_key": pick.choice(_FOREIGN_KEYS)}
        case {"op": "join" | "left_join", "key": _}:
            return {"key": pick.choice(_LOOKED_UP)}
        case _:
            return {}


def _settings(node: Node, by_id: dict[str, Node], pick: random.Random) -> Node:
    if node["op"] not in ("reduce", "aggregate", "count"):
        return {}
    changes: Node = {}
    if node["op"] == "aggregate" and node.get("adder") not in ("sum_len", "sum") and node.get("initial") == "":
        changes["initial"] = "i"
    if by_id.get(node["in"], {}).get("op") in ("windowed_by", "emit") and pick.random() < 0.5:
        changes["retention_ms"] = 1_000
    if node["op"] == "reduce" and "subtractor" not in node and not node["adder"].startswith("fail"):
        changes["adder"] = pick.choice(["concat_or_null:z", "concat_or_null:a", "latest"])
    return changes


def _history(node: Node, by_id: dict[str, Node], pick: random.Random) -> Node:
    source = by_id.get(node["in"], {}) if isinstance(node.get("in"), str) else {}
    counts_table = node["op"] == "count" and source.get("op") == "group_by" and "key" in source
    joins_tables = node["op"].endswith("join") and "foreign_key" not in node and _joins_tables(node, by_id)
    return {"versioned_history_ms": pick.choice(_HISTORIES)} if counts_table or joins_tables else {}


def _joins_tables(node: Node, by_id: dict[str, Node]) -> bool:
    """Whether a join reads two tables of text keys; only those of topics and their groupings are certain."""
    if "before_ms" in node or "grace_ms" in node:
        return False
    return all(_is_plain_table(by_id.get(name, {}), by_id) for name in node["in"])


def _is_plain_table(node: Node, by_id: dict[str, Node]) -> bool:
    if node.get("op") == "table":
        return True
    source = node.get("in")
    return (
        node.get("op") in ("count", "reduce", "aggregate")
        and isinstance(source, str)
        and (by_id.get(source, {}).get("op") == "group_by")
    )


def with_numbers(case: Case, pick: random.Random) -> Case:
    """Let some topics have whole numbers, and some records of them other text."""
    topics = {node["topic"] for node in case.topology if node.get("topic", "").startswith("in") and pick.random() < 0.6}

    def numbered(step: Node) -> Node:
        if "pipe" not in step or step["pipe"][0] not in topics or step["pipe"][2] is None or pick.random() < 0.15:
            return step
        topic, key, _, *rest = step["pipe"]
        return {"pipe": [topic, key, str(pick.choice([-1, 0, 1, 2, 7, 12, 30])), *rest]}

    nodes = [
        {**node, "value_type": "number"} if node.get("topic") in topics and "in" not in node else node
        for node in case.topology
    ]
    policy = pick.choice(["continue", "continue", "fail"])
    config = {**(case.config or {}), "deserialization_handler": policy}
    return msgspec.structs.replace(case, topology=nodes, steps=[numbered(step) for step in case.steps], config=config)


def with_times_in_values(case: Case, pick: random.Random) -> Case:
    """Take the timestamps of some topics from their values."""
    topics = {node["topic"] for node in case.topology if node.get("topic", "").startswith("in") and pick.random() < 0.7}

    def timed(step: Node) -> Node:
        if "pipe" not in step or step["pipe"][0] not in topics or step["pipe"][2] is None or pick.random() < 0.1:
            return step
        topic, key, value, timestamp, *rest = step["pipe"]
        return {"pipe": [topic, key, f"{timestamp + pick.choice([-5, 0, 0, 3])}|{value}", timestamp, *rest]}

    def extracting(node: Node) -> Node:
        if node.get("topic") not in topics or "in" in node:
            return node
        invalid = pick.choice(["skip", "skip", "partition_time", "fail"])
        return {**node, "timestamp": "value_field:0", "on_invalid": invalid}

    nodes, steps = [extracting(node) for node in case.topology], [timed(step) for step in case.steps]
    return msgspec.structs.replace(case, topology=nodes, steps=steps)


def in_turn(*changes: Callable[[Case, random.Random], Case]) -> Callable[[Case, random.Random], Case]:
    """Return a change that makes several ones."""

    def change(case: Case, pick: random.Random) -> Case:
        for step in changes:
            case = step(case, pick)
        return case

    return change
