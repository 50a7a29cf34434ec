"""Random variations of the recorded cases: their topologies with other inputs, functions, times and settings.

The recorded cases were drawn by another generator than ours, so variations of them reach combinations that ours does
not draw.
"""

from __future__ import annotations

import random
from collections import defaultdict
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
from tests.conformance.test_cases import LINES

from millstream.testing.conformance.cases import Case, Expectation

Node: TypeAlias = dict[str, Any]
_LETTERS = "abcxyzv|"
_FUNCTIONS = ("fn", "joiner", "key", "value", "foreign_key")
_JOINS = ("join", "left_join", "outer_join")
_NOT_VARIED = ("errors", "routing/dynamic-topic", "time/extractor")
"""Groups whose cases are refused, or fail with most inputs."""
_SPECIAL = ("value_even", "concat_key")
"""Functions that fail on text, or that tables do not have."""
_NUMBERS = ("count", "punctuate", "ticks", "'number'")
_CHANGED = 0.25


def varied(seed: int, groups: tuple[str, ...]) -> Case:
    """Return a variation of a recorded case; ``groups`` are prefixes of the groups to choose from."""
    pick = random.Random(seed)
    case = msgspec.json.decode(pick.choice(_lines(groups)), type=Case)
    nodes = [_changed(node, case, pick) for node in case.topology]
    steps = _steps(case, pick)
    return msgspec.structs.replace(
        case, id=f"recorded/{seed}", topology=nodes, steps=steps, expect=Expectation(), compare={}
    )


@cache
def _lines(groups: tuple[str, ...]) -> list[bytes]:
    names = [name for name in LINES if name.startswith(groups) and name not in _NOT_VARIED]
    return [line for name in names for _, line in LINES[name]]


@cache
def _values() -> dict[tuple[str, str, bool], list[Any]]:
    """Return by verb, parameter and kind of step (with windows of a join or without) all values that cases have."""
    values: defaultdict[tuple[str, str, bool], set[Any]] = defaultdict(set)
    for line in _lines(("",)):
        for node in msgspec.json.decode(line, type=Case).topology:
            for name, value in node.items():
                if name in _FUNCTIONS or name.endswith("_ms"):
                    values[_kind(node, name)].add(value)
    return {kind: sorted(of_kind, key=str) for kind, of_kind in values.items()}


def _kind(node: Node, parameter: str) -> tuple[str, str, bool]:
    return node["op"], parameter, "before_ms" in node or "subtractor" in node


def _changed(node: Node, case: Case, pick: random.Random) -> Node:
    node = dict(node)
    for name, value in tuple(node.items()):
        if pick.random() > _CHANGED:
            continue
        if name in _FUNCTIONS and isinstance(value, str) and not _is_fixed(node, name, case):
            node[name] = pick.choice(_choices(node, name, case))
        elif name.endswith("_ms") and name not in ("retention_ms", "versioned_history_ms", "advance_ms", "size_ms"):
            near = [each for each in _values()[_kind(node, name)] if abs(each) <= 10 * max(abs(value), 10)]
            node[name] = pick.choice(near)
    if node["op"] in _JOINS and pick.random() < _CHANGED:
        node["op"] = pick.choice(_JOINS if _can_be_outer(node, case) else _JOINS[:2])
    if "before_ms" in node and node["before_ms"] + node["after_ms"] < 0:
        node["before_ms"] = -node["before_ms"]
    return node


def _choices(node: Node, name: str, case: Case) -> list[str]:
    """Return other functions for a parameter; numbers do not become keys."""
    is_key = name == "key" or node["op"] in ("select_key", "group_by")
    has_numbers = is_key and any(word in str(case.topology) for word in _NUMBERS)
    left_out = (*_SPECIAL, "null_if_contains:z", "value") if has_numbers else _SPECIAL
    return [each for each in _values()[_kind(node, name)] if each not in left_out]


def _is_fixed(node: Node, name: str, case: Case) -> bool:
    """Whether another function could fail, or be none of the parameter: numbers stay numbers, failures are rare."""
    return "fail" in node[name] or (node["op"] == "group_by" and name == "value" and "sum" in str(case.topology))


def _can_be_outer(node: Node, case: Case) -> bool:
    if "foreign_key" in node or "key" in node:
        return False
    by_id = {other["id"]: other for other in case.topology}
    sides = [by_id.get(name, {}).get("op") for name in node["in"]]
    return "before_ms" in node or (sides[0] == "table" and "grace_ms" not in node)


def _steps(case: Case, pick: random.Random) -> list[Node]:
    """Return other records with the keys, values and steps of time that the case has."""
    if pick.random() < 0.15:
        return case.steps
    pipes = [step["pipe"] for step in case.steps if "pipe" in step]
    others = [step for step in case.steps if "pipe" not in step]
    advances = [later[3] - earlier[3] for earlier, later in pairwise(pipes)] or [1]
    topics = sorted({pipe[0] for pipe in pipes})
    now = pipes[0][3] if pipes else 0
    steps: list[Node] = []
    for _ in range(pick.randint(4, max(12, len(case.steps)))):
        if others and pick.random() < len(others) / len(case.steps):
            steps.append(pick.choice(others))
            continue
        if not topics:
            break
        advance = pick.choice(advances)
        now += advance if pick.random() < 0.3 else abs(advance)
        topic = pick.choice(topics)
        pipe = pick.choice([each for each in pipes if each[0] == topic])
        key = pick.choice(pipes)[1] if pick.random() < 0.5 else pipe[1]
        steps.append({"pipe": [pipe[0], key, _value(pipe[2], case, pick), max(0, now), *pipe[4:]]})
    return steps


def _value(value: str | None, case: Case, pick: random.Random) -> str | None:
    if pick.random() < 0.6 or "value_type" in str(case.topology) or "'sum'" in str(case.topology):
        return value
    return None if pick.random() < 0.2 else "".join(pick.choices(_LETTERS, k=pick.randint(0, 4)))
