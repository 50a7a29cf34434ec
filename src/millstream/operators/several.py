"""Several aggregations of one row as generated code, without a loop over them; it is made of numbers only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.aggregations import Aggregation, CollectSet, Count, CountDistinct, Several, Sum

_FINISHED: dict[type, str] = {Count: "{state} or 0"}
_ADDED: dict[type, str] = {
    Count: "1 if {state} is None else {state} + 1",
    Sum: "+v if {state} is None else {state} + v",
}
"""What these aggregations do with a state, and with a value, as code; others are called."""


def adder_of(part: Aggregation, *, in_place: bool) -> Callable[[Any, Any], Any]:
    """Return what adds a value to a state; with ``in_place``, the state is not used elsewhere."""
    return part.add_in_place if in_place and isinstance(part, CollectSet | CountDistinct) else part.add


def compiled_adder(several: Several, *, in_place: bool) -> Callable[[list[Any] | None, list[Any]], list[Any]]:
    """Return what ``add`` of several aggregations does."""
    if not several.parts:
        return several.add
    names: dict[str, Any] = {"empty": [None] * len(several.parts)}
    items = []
    for number, (part, index) in enumerate(zip(several.parts, several.indexes, strict=True)):
        state = f"s{number}"
        added = _ADDED.get(type(part), "a{number}({state}, v)").format(state=state, number=number)
        names[f"a{number}"] = adder_of(part, in_place=in_place)
        items.append(f"{state} if (v := values[{index}]) is None else {added}")
    states = _states(several)
    return _compiled(f"[{states}] = states or empty\n    return [{', '.join(items)}]", "states, values", names)


def compiled_counter(several: Several) -> Callable[[Any, list[Any] | None, Any], list[Any]]:
    """Return what ``count`` of several aggregations that all are counts does; the first argument is the key."""
    numbers = range(len(several.parts))
    first, more = (", ".join(item.format(number) for number in numbers) for item in ("1", "states[{}] + 1"))
    return _compiled(f"return [{first}] if states is None else [{more}]", "_key, states, _value", {})


def compiled_finisher(several: Several) -> Callable[[list[Any]], dict[str, Any]]:
    """Return what ``finish`` of several aggregations does with states that exist."""
    if not several.parts:
        return several.finish
    names: dict[str, Any] = {}
    items = []
    for number, (name, part) in enumerate(zip(several.names, several.parts, strict=True)):
        is_result = type(part).finish is Aggregation.finish
        finished = "{state}" if is_result else _FINISHED.get(type(part), "f{number}({state})")
        names |= {f"n{number}": name, f"f{number}": part.finish}
        items.append(f"n{number}: {finished.format(state=f's{number}', number=number)}")
    return _compiled(f"[{_states(several)}] = states\n    return {{{', '.join(items)}}}", "states", names)


def _states(several: Several) -> str:
    return ", ".join(f"s{number}" for number in range(len(several.parts)))


def _compiled(body: str, parameters: str, names: dict[str, Any]) -> Callable[..., Any]:
    source = f"def function({parameters}):\n    {body}\n"
    exec(compile(source, "<several aggregations>", "exec"), names)  # noqa: S102  # made of numbers only
    function: Callable[..., Any] = names["function"]
    return function
