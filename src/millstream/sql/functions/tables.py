"""Table functions: each returns a list of values for a row, and the row is repeated for each of them."""

from __future__ import annotations

from itertools import product
from typing import Any

from millstream.sql.functions.maps import entries_type
from millstream.sql.functions.registry import function

TABLE_FUNCTIONS = {"EXPLODE", "CUBE_EXPLODE"}
"""The names of functions whose result is one value for each row; their signatures return arrays of it."""


MAX_CUBE = 16
"""How many elements CUBE_EXPLODE combines; each one doubles the number of rows."""


@function("EXPLODE", "ARRAY<T> -> ARRAY<T>")
def _explode(values: list[Any]) -> list[Any]:
    return values


@function("EXPLODE", "MAP<K, V> -> ANY", returns=entries_type)
def _explode_map(values: dict[Any, Any]) -> list[dict[str, Any]]:
    return [{"K": key, "V": value} for key, value in values.items()]


@function("CUBE_EXPLODE", "ARRAY<T> -> ARRAY<ARRAY<T>>")
def _cube(values: list[Any]) -> list[list[Any]]:
    if len(values) > MAX_CUBE:
        raise ValueError(f"CUBE_EXPLODE takes at most {MAX_CUBE} elements, which are {2**MAX_CUBE:,} rows")
    choices = [(None,) if value is None else (None, value) for value in values]
    return [list(row) for row in product(*choices)]
