"""The result of a query: a handle with the columns of key and value, and how it is split into both."""

from __future__ import annotations

from typing import Any, NamedTuple

from millstream.sql.catalog import Columns, Relation, SourceWindow
from millstream.sql.nodes import Column, Kind
from millstream.sql.problems import Problem
from millstream.sql.translate.outputs import OutputColumn


class DefinedResult(NamedTuple):
    """A stream or table that a query defines."""

    handle: Any
    kind: Kind
    keys: Columns
    values: Columns
    window: SourceWindow | None
    origin: Relation
    """The source whose formats the result has by default."""
    is_rekeyed: bool = False


def split_key(
    outputs: list[OutputColumn], keys: tuple[tuple[str, ...], ...], offset: int, what: str
) -> tuple[list[OutputColumn], list[OutputColumn]]:
    """Return the outputs that are the key, in its order, and the others; each column of the key must occur once."""
    chosen: list[OutputColumn] = []
    for names in keys:
        columns = [output for output in outputs if isinstance(output.node, Column)]
        candidates = [output for name in names for output in columns if output.node.name == name]  # type: ignore[union-attr]
        if not candidates:
            wanted = " or ".join(name.lstrip("#") for name in names)
            raise Problem(offset, f"the {what} {wanted} is missing in SELECT", "add it: it is the key of the result")
        first = candidates[0]
        for other in candidates[1:]:
            if other.node.name == first.node.name:  # type: ignore[union-attr]
                raise Problem(
                    other.offset,
                    f"the key column {first.name} is selected more than once",
                    f"use AS_VALUE({first.name}) for a copy in the value",
                )
        chosen.append(first)
    return chosen, [output for output in outputs if output not in chosen]
