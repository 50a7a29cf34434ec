"""Functions of maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.sql.functions.registry import function
from millstream.sql.types import Type, array, struct_of


@function("MAP_KEYS", "MAP<K, V> -> ARRAY<K>")
def _map_keys(values: dict[Any, Any]) -> list[Any]:
    return list(values)


@function("MAP_VALUES", "MAP<K, V> -> ARRAY<V>")
def _map_values(values: dict[Any, Any]) -> list[Any]:
    return list(values.values())


@function("MAP_UNION MAP_CONCAT", "MAP<K, V>, MAP<K, V> -> MAP<K, V>", nulls=True)
def _map_union(left: dict[Any, Any] | None, right: dict[Any, Any] | None) -> dict[Any, Any] | None:
    return None if left is None and right is None else {**(left or {}), **(right or {})}


@function("AS_MAP", "ARRAY<STRING>, ARRAY<V> -> MAP<STRING, V>")
def _as_map(keys: list[Any], values: list[Any]) -> dict[Any, Any]:
    return dict(zip(keys, values, strict=False))


def entries_type(types: tuple[Type, ...]) -> Type:
    """Return the type of the entries of a map."""
    return array(struct_of({"K": types[0].items[0], "V": types[0].items[1]}))


@function("ENTRIES MAP_ENTRIES", "MAP<K, V>, BOOLEAN -> ANY", "MAP<K, V> -> ANY", returns=entries_type)
def _entries(values: dict[Any, Any], is_sorted: bool = False) -> list[dict[str, Any]]:
    keys = sorted(values) if is_sorted else values
    return [{"K": key, "V": values[key]} for key in keys]


@function("TRANSFORM", "MAP<K, V>, LAMBDA<K, V, A>, LAMBDA<K, V, B> -> MAP<A, B>")
def _transform(
    values: dict[Any, Any], key_of: Callable[[Any, Any], Any], value_of: Callable[[Any, Any], Any]
) -> dict[Any, Any]:
    result = {key_of(key, value): value_of(key, value) for key, value in values.items()}
    if len(result) < len(values):
        raise ValueError("two entries of the map get the same key")
    return result


@function("FILTER", "MAP<K, V>, LAMBDA<K, V, BOOLEAN> -> MAP<K, V>")
def _filter(values: dict[Any, Any], keeps: Callable[[Any, Any], Any]) -> dict[Any, Any]:
    return {key: value for key, value in values.items() if keeps(key, value)}


@function("REDUCE AGGREGATE", "MAP<K, V>, S, LAMBDA<S, K, V, S> -> S", nulls=True)
def _reduce(values: dict[Any, Any] | None, state: Any, combine: Callable[[Any, Any, Any], Any]) -> Any:
    if state is None:
        return None
    for key, value in (values or {}).items():
        state = combine(state, key, value)
    return state
