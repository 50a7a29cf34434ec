"""Rows for an Avro schema that exists already: its names of fields, and its defaults where a row has null."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Fit: TypeAlias = Callable[[Any], Any]


def fitting(schema: Any) -> Fit | None:
    """Return what fits values to a decoded schema; None if values stay as they are.

    >>> field = {"name": "votes", "type": "long", "default": 10}
    >>> fitting({"type": "record", "name": "r", "fields": [field]})({"VOTES": None})
    {'votes': 10}
    """
    if isinstance(schema, list):
        return _optional(schema)
    if not isinstance(schema, dict):
        return None
    kind = schema.get("type")
    if kind == "record":
        return _record(schema)
    if kind in ("array", "map"):
        return _items(fitting(schema["items" if kind == "array" else "values"]))
    return fitting(kind) if isinstance(kind, dict | list) else None


def _optional(branches: list[Any]) -> Fit | None:
    """Return what fits the values of a union with null; other unions are left to the encoder."""
    others = [branch for branch in branches if branch != "null"]
    return fitting(others[0]) if len(others) == 1 else None


def _record(schema: dict[str, Any]) -> Fit:
    fields = [
        (field["name"], fitting(field["type"]), field.get("default"), _takes_null(field["type"]))
        for field in schema.get("fields", ())
    ]
    names = {name.upper(): name for name, _, _, _ in fields}

    def fit(row: Any) -> Any:
        if not isinstance(row, dict):
            return row
        exact = {name if name in known else names.get(name.upper(), name): value for name, value in row.items()}
        for name, fit_field, default, takes_null in fields:
            value = exact.get(name)
            if value is None and not takes_null and default is not None:
                exact[name] = default
            elif value is not None and fit_field is not None:
                exact[name] = fit_field(value)
        return exact

    known = set(names.values())
    return fit


def _items(fit: Fit | None) -> Fit | None:
    if fit is None:
        return None

    def fit_all(values: Any) -> Any:
        if isinstance(values, dict):
            return {key: None if value is None else fit(value) for key, value in values.items()}
        return [None if value is None else fit(value) for value in values]

    return fit_all


def _takes_null(type: Any) -> bool:
    return type == "null" or (isinstance(type, list) and "null" in type)
