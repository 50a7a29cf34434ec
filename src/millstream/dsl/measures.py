"""Measures such as ``min_of("price")``: which aggregation, and of what. For ``agg()`` and the ready-made verbs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from millstream.aggregations import (
    AnyAggregation,
    Collect,
    CollectSet,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Mean,
    Min,
    Quantile,
    Several,
    Sum,
    Top,
)
from millstream.errors import DefinitionError
from millstream.foundation.type_variables import V2
from millstream.functions import AnyFunction, Function, ValueFunction, by_arity

Selector: TypeAlias = str | AnyFunction | None
"""The name of a field, a function of ``(value)`` or ``(key, value)``, or None for the value itself."""

ValueSelector: TypeAlias = str | ValueFunction[V2, object] | None
"""A selector without the key."""

_FORMS = {1: "(value)", 2: "(key, value)"}


@dataclass(frozen=True)
class Measure:
    """An aggregation and what it is of; made by ``sum_of``, ``mean_of`` and so on."""

    verb: str
    aggregation: AnyAggregation
    select: Function | None
    """Computes what is aggregated from a record; None for the record's value."""


def count_of(of: Selector = None) -> Measure:
    """Count the records, or those for which ``of`` is not null."""
    return Measure("count", Count(), _always if of is None else _selected("count", of))


def sum_of(of: Selector = None) -> Measure:
    """Add values up."""
    return Measure("sum", Sum(), _selected("sum", of))


def mean_of(of: Selector = None) -> Measure:
    """Return the arithmetic mean."""
    return Measure("mean", Mean(), _selected("mean", of))


def min_of(of: Selector = None) -> Measure:
    """Return the smallest value."""
    return Measure("min", Min(), _selected("min", of))


def max_of(of: Selector = None) -> Measure:
    """Return the greatest value."""
    return Measure("max", Max(), _selected("max", of))


def first_of(of: Selector = None) -> Measure:
    """Return the value that arrived first."""
    return Measure("first", First(), _selected("first", of))


def last_of(of: Selector = None) -> Measure:
    """Return the value that arrived last."""
    return Measure("last", Last(), _selected("last", of))


def collect_of(of: Selector = None) -> Measure:
    """Return all values as a list."""
    return Measure("collect", Collect(), _selected("collect", of))


def collect_set_of(of: Selector = None) -> Measure:
    """Return the distinct values as a list."""
    return Measure("collect_set", CollectSet(), _selected("collect_set", of))


def count_distinct_of(of: Selector = None) -> Measure:
    """Count the distinct values exactly."""
    return Measure("count_distinct", CountDistinct(), _selected("count_distinct", of))


def quantile_of(q: float, of: Selector = None) -> Measure:
    """Return the quantile ``q`` (0.99: the 99th percentile), within 1 % of the exact value."""
    if not 0 <= q <= 1:
        raise DefinitionError(f"quantile({q!r}) is not valid", hint="pass a share from 0 to 1, such as 0.99")
    return Measure("quantile", Quantile(q), _selected("quantile", of))


def top_of(n: int, of: Selector = None, *, by: Selector = None) -> Measure:
    """Return the ``n`` greatest values, the greatest first; ``by`` selects what they are compared by."""
    if n < 1:
        raise DefinitionError(f"top({n!r}) is not valid", hint="keep 1 or more values")
    select = _selected("top", of)
    if by is None:
        return Measure("top", Top(n), select)
    rank = _selected("top", by)
    assert rank is not None
    return Measure("top", Top(n, ranked=True), _ranked(rank, select))


def several(measures: Mapping[str, Measure]) -> Measure:
    """Combine measures into one, whose result has these names."""
    if not measures:
        raise DefinitionError("agg() has nothing to aggregate", hint='for example low=min_of("price")')
    for name, measure in measures.items():
        if not isinstance(measure, Measure):
            raise DefinitionError(
                f"agg({name}={measure!r}) is not an aggregation", hint=f'for example {name}=min_of("price")'
            )
    selects = [_itself if measure.select is None else measure.select for measure in measures.values()]
    distinct = list(dict.fromkeys(selects))
    indexes = tuple(distinct.index(select) for select in selects)
    parts = tuple(measure.aggregation for measure in measures.values())
    return Measure("agg", Several(tuple(measures), parts, indexes), _list_of(distinct))


def _selected(verb: str, of: Selector) -> Function | None:
    if of is None:
        return None
    return _field(of) if isinstance(of, str) else _guarded(by_arity(verb, of, _FORMS))


@functools.cache  # so that a field that several measures name is selected once
def _field(name: str) -> Function:
    def get(value: Any) -> Any:
        if type(value) is dict:
            return value[name]
        return None if value is None else getattr(value, name)

    return _named(get, 1, f"field {name}")


def _guarded(function: Function) -> Function:
    """Return a function that passes null values through."""
    call = function.call
    if function.arity == 1:
        return _named(lambda value: None if value is None else call(value), 1, function.name)
    return _named(lambda key, value: None if value is None else call(key, value), 2, function.name)


def _ranked(rank: Function, select: Function | None) -> Function:
    rank_of, value_of = _of_pair(rank), _of_pair(select or _itself)

    def pair(key: Any, value: Any) -> list[Any] | None:
        order, selected = rank_of(key, value), value_of(key, value)
        return None if order is None or selected is None else [order, selected]

    return _named(pair, 2, f"{(select or _itself).name} by {rank.name}")


def _list_of(selects: list[Function]) -> Function:
    name = ", ".join(select.name for select in selects)
    if all(select.arity == 1 for select in selects):
        calls = [select.call for select in selects]
        return _named(lambda value: None if value is None else [call(value) for call in calls], 1, name)
    pairs = [_of_pair(select) for select in selects]
    return _named(lambda key, value: None if value is None else [call(key, value) for call in pairs], 2, name)


def _of_pair(function: Function) -> Callable[[Any, Any], Any]:
    call = function.call
    return call if function.arity == 2 else lambda _key, value: call(value)


def _named(call: AnyFunction, arity: int, name: str) -> Function:
    """Name a function, since plans identify functions by name."""
    call.__qualname__ = name
    return Function(call, arity)


_always = _named(lambda value: None if value is None else True, 1, "presence")
_itself = _named(lambda value: value, 1, "value")
