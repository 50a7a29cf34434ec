"""Rows that are not found: because there are none, or because they are asked for with a key of another type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.errors import DefinitionError
from millstream.operators.lookup import Lookup, lookup
from millstream.operators.runtime import Runtime
from millstream.plan.node import Node


def asking(table: Node, runtime: Runtime) -> Callable[[Any], None]:
    """Return what is to be called with a key that was not found; it raises if that key can never be there."""
    known = runtime.plan.key_types[table]

    def check(key: Any) -> None:
        if known is not None and type(key) is not known.type:
            wanted = known.type.__name__
            raise DefinitionError(
                f"the key is {type(key).__name__}, but the keys of {known.topic!r} are {wanted}, so it is never found",
                hint=f"make it {wanted}, or read {known.topic!r} with key={type(key).__name__}",
            )

    return check


def checked_lookup(table: Node, runtime: Runtime) -> Lookup:
    """Return what finds the rows of a table, and raises for a key that can never be there."""
    find, check = lookup(table, runtime), asking(table, runtime)

    def look(key: Any) -> tuple[Any, int]:
        found = find(key)
        if found[0] is None:
            check(key)
        return found

    return look
