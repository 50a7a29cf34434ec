"""Functions of arrays, and functions of any values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.foundation.object_codec import encode_key
from millstream.sql.functions.registry import function
from millstream.sql.values import as_text


def identity(value: Any) -> Any:
    """Return something hashable that is equal for equal values."""
    return value if type(value) in (str, int, type(None)) else encode_key(value)


def distinct(values: list[Any]) -> list[Any]:
    """Return each value once, in order of first occurrence."""
    seen: dict[Any, Any] = {}
    for value in values:
        seen.setdefault(identity(value), value)
    return list(seen.values())


@function("AS_VALUE", "T -> T", nulls=True)
def _as_value(value: Any) -> Any:
    return value


@function("COALESCE", "T, T... -> T", nulls=True)
def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


@function("IFNULL NVL", "T, T -> T", nulls=True)
def if_null(value: Any, otherwise: Any) -> Any:
    """Return a value, another one if it is null."""
    return otherwise if value is None else value


@function("NULLIF", "T, T -> T", nulls=True)
def _nullif(value: Any, other: Any) -> Any:
    return None if value == other else value


@function("ARRAY_LENGTH CARDINALITY SIZE", "ARRAY<T> -> INTEGER")
def _array_length(values: list[Any]) -> int:
    return len(values)


@function("CARDINALITY SIZE", "MAP<K, V> -> INTEGER")
def _map_size(values: dict[Any, Any]) -> int:
    return len(values)


@function("ARRAY_CONTAINS ARRAYCONTAINS", "ARRAY<T>, T -> BOOLEAN", nulls=True)
def _array_contains(values: list[Any] | None, value: Any) -> bool:
    return values is not None and value in values


@function("ARRAY_CONCAT", "ARRAY<T>, ARRAY<T> -> ARRAY<T>", nulls=True)
def _array_concat(left: list[Any] | None, right: list[Any] | None) -> list[Any] | None:
    return None if left is None and right is None else [*(left or []), *(right or [])]


@function("ARRAY_DISTINCT", "ARRAY<T> -> ARRAY<T>")
def _array_distinct(values: list[Any]) -> list[Any]:
    return distinct(values)


@function("ARRAY_EXCEPT", "ARRAY<T>, ARRAY<T> -> ARRAY<T>")
def _array_except(left: list[Any], right: list[Any]) -> list[Any]:
    excluded = set(map(identity, right))
    return [value for value in distinct(left) if identity(value) not in excluded]


@function("ARRAY_INTERSECT", "ARRAY<T>, ARRAY<T> -> ARRAY<T>")
def _array_intersect(left: list[Any], right: list[Any]) -> list[Any]:
    kept = set(map(identity, right))
    return [value for value in distinct(left) if identity(value) in kept]


@function("ARRAY_UNION", "ARRAY<T>, ARRAY<T> -> ARRAY<T>")
def _array_union(left: list[Any], right: list[Any]) -> list[Any]:
    return distinct([*left, *right])


@function("ARRAY_REMOVE", "ARRAY<T>, T -> ARRAY<T>", nulls=True)
def _array_remove(values: list[Any] | None, removed: Any) -> list[Any] | None:
    return None if values is None else [value for value in values if value != removed]


@function("ARRAY_MAX", "ARRAY<T> -> T")
def _array_max(values: list[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)


@function("ARRAY_MIN", "ARRAY<T> -> T")
def _array_min(values: list[Any]) -> Any:
    return min((value for value in values if value is not None), default=None)


@function("ARRAY_SORT SORT_ARRAY", "ARRAY<T> -> ARRAY<T>", "ARRAY<T>, STRING -> ARRAY<T>")
def _array_sort(values: list[Any], order: str = "ASC") -> list[Any] | None:
    word = order.strip().upper()
    if word not in ("ASC", "ASCENDING", "DESC", "DESCENDING"):
        return None
    given = sorted((value for value in values if value is not None), reverse=word.startswith("DESC"))
    return given + [None] * (len(values) - len(given))


@function("ARRAY_JOIN", "ARRAY<T> -> STRING", "ARRAY<T>, STRING -> STRING", nulls=True)
def _array_join(values: list[Any] | None, separator: str | None = ",") -> str | None:
    return None if values is None else (separator or "").join(map(as_text, values))


@function("SLICE", "ARRAY<T>, INTEGER, INTEGER -> ARRAY<T>", nulls=True)
def _slice(values: list[Any] | None, start: int | None, stop: int | None) -> list[Any] | None:
    if values is None:
        return None
    first = 1 if start is None else start
    last = len(values) if stop is None else stop
    if not 1 <= first <= len(values):
        return None
    return values[first - 1 : max(last, first - 1)]


@function("ELT", "INTEGER, STRING... -> STRING", nulls=True)
def _elt(number: int | None, *texts: str | None) -> str | None:
    return texts[number - 1] if number is not None and 1 <= number <= len(texts) else None


@function("FIELD", "STRING, STRING... -> INTEGER", nulls=True)
def _field(text: str | None, *texts: str | None) -> int:
    return next((number for number, other in enumerate(texts, 1) if text is not None and other == text), 0)


# Lambdas


@function("TRANSFORM", "ARRAY<T>, LAMBDA<T, U> -> ARRAY<U>")
def _transform(values: list[Any], change: Callable[[Any], Any]) -> list[Any]:
    return [change(value) for value in values]


@function("FILTER", "ARRAY<T>, LAMBDA<T, BOOLEAN> -> ARRAY<T>")
def _filter(values: list[Any], keeps: Callable[[Any], Any]) -> list[Any]:
    return [value for value in values if keeps(value)]


@function("REDUCE AGGREGATE", "ARRAY<T>, S, LAMBDA<S, T, S> -> S", nulls=True)
def _reduce(values: list[Any] | None, state: Any, combine: Callable[[Any, Any], Any]) -> Any:
    if state is None:
        return None
    for value in values or ():
        state = combine(state, value)
    return state
