"""The columns of a result: items of SELECT with stars expanded, and their names."""

from __future__ import annotations

from typing import NamedTuple

from millstream.sql.generate import Generator
from millstream.sql.nodes import AnyExpression, Column, Field, Item, Star
from millstream.sql.problems import Problem
from millstream.sql.translate.names import BOUNDS, SYSTEM, QueryNames


class OutputColumn(NamedTuple):
    """A column of the result before it is decided whether it belongs to the key."""

    name: str
    node: AnyExpression
    offset: int


def outputs_of(
    items: tuple[Item, ...],
    names: QueryNames,
    generator: Generator,
    *,
    has_row_key: bool,
    keeps_bounds: bool,
    keys_last: bool,
    allows_system: bool = False,
) -> list[OutputColumn]:
    """Return the columns of a result; ``has_row_key``: the key of a join has no column of its own.

    ``allows_system``: columns may have the names of system columns, since the result is only shown.
    """
    outputs: list[OutputColumn] = []
    unnamed = 0
    for item in items:
        node = item.expression
        if isinstance(node, Star):
            if has_row_key and node.source is None:
                outputs.append(OutputColumn("ROWKEY", Column(name="ROWKEY", offset=item.offset), item.offset))
            outputs += _starred(node, names, keys_last=keys_last)
        elif isinstance(node, Field) and node.name == "*":
            outputs += _fields(node, names, generator)
        else:
            resolved = resolve_item(node, names, keeps_bounds=keeps_bounds)
            name = item.alias or _default_name(node, names, outputs)
            if not name:
                name, unnamed = _numbered_name(unnamed, names, outputs)
            if not allows_system:
                _check_name(name, item)
            outputs.append(OutputColumn(name, resolved, item.offset))
    _check_unique(outputs)
    return outputs


def resolve_item(
    node: AnyExpression, names: QueryNames, *, keeps_bounds: bool, clause: str = "SELECT"
) -> AnyExpression:
    """Return an expression with its columns resolved; the bounds of windows stay if the query makes windows."""
    return names.resolved(node, clause, keep=frozenset(BOUNDS) if keeps_bounds else frozenset())


def _starred(star: Star, names: QueryNames, *, keys_last: bool) -> list[OutputColumn]:
    columns = list(names.expanded(star))
    if keys_last:  # the old key is part of the value behind PARTITION BY
        columns.sort(key=lambda pair: pair[1] in pair[0].relation.keys)
    named = ((source, name, names.internal(source, name)) for source, name in columns)
    return [OutputColumn(internal, Column(name=internal, offset=star.offset), star.offset) for _, _, internal in named]


def _fields(node: Field, names: QueryNames, generator: Generator) -> list[OutputColumn]:
    struct = names.resolved(node.operand, "SELECT")
    type = generator.code(struct).type
    if type.kind != "STRUCT":
        raise Problem(node.offset, f"->* needs a STRUCT, this is {type}")
    return [
        OutputColumn(name, Field(operand=struct, name=name, offset=node.offset), node.offset) for name in type.names
    ]


def _default_name(node: AnyExpression, names: QueryNames, outputs: list[OutputColumn]) -> str:
    """Return the name of an item without alias, empty for an expression."""
    if isinstance(node, Column):
        if node.name in BOUNDS or (node.name == "ROWKEY" and names.is_joined and node.source is None):
            return node.name
        return names.shown(*names.find(node))
    if isinstance(node, Field):
        return _unused(node.name, names, outputs)
    return ""


def _unused(name: str, names: QueryNames, outputs: list[OutputColumn]) -> str:
    taken = {output.name for output in outputs} | {column for each in names.inputs for column in each.columns}
    candidates = (name if not number else f"{name}_{number}" for number in range(len(taken) + 1))
    return next(candidate for candidate in candidates if candidate not in taken)


def _numbered_name(number: int, names: QueryNames, outputs: list[OutputColumn]) -> tuple[str, int]:
    taken = {output.name for output in outputs} | {name for each in names.inputs for name in each.columns}
    while f"KSQL_COL_{number}" in taken:
        number += 1
    return f"KSQL_COL_{number}", number + 1


def _check_name(name: str, item: Item) -> None:
    if name in SYSTEM:
        raise Problem(item.offset, f"{name} is a reserved name", f"give the column another name: … AS {name}_")


def _check_unique(outputs: list[OutputColumn]) -> None:
    seen: set[str] = set()
    for output in outputs:
        if output.name in seen:
            raise Problem(output.offset, f"two columns of the result are called {output.name}", "rename one with AS")
        seen.add(output.name)
