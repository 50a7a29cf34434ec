"""Lookups that find no row: report those whose key has another type than the keys of the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.errors import DefinitionError
from millstream.operators.lookup import Lookup, lookup
from millstream.operators.runtime import Runtime
from millstream.plan.node import Node


def key_type_check(table: Node, runtime: Runtime) -> Callable[[Any], None]:
    """Return a check to call with a key that was not found; it raises if the key has another type than the table's."""
    key_type = runtime.plan.key_types[table]

    def check(key: Any) -> None:
        if key_type is not None and type(key) is not key_type.type:
            expected, actual = key_type.type.__name__, type(key).__name__
            raise DefinitionError(
                f"the key is {actual}, but the keys of {key_type.topic!r} are {expected}, so it is never found",
                hint=f"make it {expected}, or read {key_type.topic!r} with key={actual}",
            )

    return check


def checked_lookup(table: Node, runtime: Runtime) -> Lookup:
    """Return a lookup in a table that raises for a key of another type than the table's."""
    find, check = lookup(table, runtime), key_type_check(table, runtime)

    def look(key: Any) -> tuple[Any, int]:
        result = find(key)
        if result[0] is None:
            check(key)
        return result

    return look
