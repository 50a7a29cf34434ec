"""Name resolution: the sources of a query, their columns, and the names that columns have inside the query."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import NamedTuple

from millstream.sql.catalog import Columns, Relation
from millstream.sql.generate import is_unit
from millstream.sql.nodes import AnyExpression, Column, Star
from millstream.sql.problems import Problem
from millstream.sql.tree import transform_columns
from millstream.sql.types import BIGINT, BYTES, INTEGER, STRING, Type, array, struct_of

HEADERS = array(struct_of({"KEY": STRING, "VALUE": BYTES}))
PSEUDO: Columns = {"ROWTIME": BIGINT, "ROWPARTITION": INTEGER, "ROWOFFSET": BIGINT}
BOUNDS: Columns = {"WINDOWSTART": BIGINT, "WINDOWEND": BIGINT}
SYSTEM = frozenset({*PSEUDO, *BOUNDS})


class Input(NamedTuple):
    """A source of a query under its alias."""

    alias: str
    relation: Relation

    @property
    def columns(self) -> Columns:
        """The columns that ``*`` stands for."""
        relation = self.relation
        headers = {name: HEADERS if header is None else BYTES for name, header in relation.headers.items()}
        return {**relation.keys, **relation.values, **headers}

    @property
    def all_columns(self) -> Columns:
        bounds = {} if self.relation.window is None else BOUNDS
        return {**self.columns, **PSEUDO, **bounds}


class QueryNames:
    """Resolves the names of a query. With several sources a column is called ``ALIAS_COLUMN`` inside the query."""

    def __init__(self, inputs: list[Input], *, shows_bounds: bool = False) -> None:
        """``shows_bounds``: the bounds of windowed sources are part of ``*``, behind their key."""
        self.inputs = inputs
        self._shows_bounds = shows_bounds
        self.is_joined = len(inputs) > 1
        aliases = [each.alias for each in inputs]
        self.duplicates = sorted({alias for alias in aliases if aliases.count(alias) > 1})

    def find(self, column: Column, clause: str = "SELECT") -> tuple[Input, str]:
        """Return the source of a column and its name there."""
        if column.source is not None:
            source = self.source(column.source, column.offset)
            if column.name not in source.all_columns:
                raise self._unknown(column, list(source.all_columns), clause)
            return source, column.name
        sources = [each for each in self.inputs if column.name in each.all_columns]
        if not sources:
            raise self._unknown(column, [name for each in self.inputs for name in each.all_columns], clause)
        if len(sources) > 1:
            hint = " or ".join(f"{each.alias}.{column.name}" for each in sources)
            raise Problem(column.offset, f"column {column.name} is ambiguous", f"write {hint}")
        return sources[0], column.name

    def source(self, alias: str, offset: int) -> Input:
        """Return a source by its alias."""
        for each in self.inputs:
            if each.alias == alias:
                return each
        known = ", ".join(each.alias for each in self.inputs)
        raise Problem(offset, f"{alias} is not a source of this query", f"its sources are {known}")

    @staticmethod
    def _unknown(column: Column, known: list[str], clause: str) -> Problem:
        similar = difflib.get_close_matches(column.name, known, 1)
        hint = f"did you mean {similar[0]}?" if similar else f"the columns are {', '.join(dict.fromkeys(known))}"
        return Problem(column.offset, f"column {column.name} of {clause} is unknown", hint)

    def internal(self, source: Input, name: str) -> str:
        """Return the name of a column inside the query."""
        return f"{source.alias}_{name}" if self.is_joined else name

    def shown(self, source: Input, name: str) -> str:
        """Return the name of a column in the result: with its alias if several sources have that column."""
        clashes = sum(name in each.all_columns for each in self.inputs) > 1
        return f"{source.alias}_{name}" if clashes else name

    def resolved(self, node: AnyExpression, clause: str, keep: frozenset[str] = frozenset()) -> AnyExpression:
        """Return an expression with the names that columns have inside the query; names in ``keep`` stay."""

        def change(column: Column) -> AnyExpression:
            if column.name in keep and (column.source is None or self.source(column.source, column.offset)):
                return Column(name=column.name, offset=column.offset)
            if self.is_joined and column.source is None and column.name == "ROWKEY" and not self._has(column.name):
                return column
            if column.source is None and is_unit(column.name) and not self._has(column.name):
                return column  # an argument of a function such as TIMESTAMPADD
            source, name = self.find(column, clause)
            return Column(name=self.internal(source, name), offset=column.offset)

        return transform_columns(node, change)

    def _has(self, name: str) -> bool:
        return any(name in each.all_columns for each in self.inputs)

    def expanded(self, star: Star) -> Iterator[tuple[Input, str]]:
        """Yield the columns that a star stands for."""
        inputs = self.inputs if star.source is None else [self.source(star.source, star.offset)]
        for each in inputs:
            shows_bounds = self._shows_bounds or self.is_joined  # a join of windows keeps both bounds as columns
            bounds = BOUNDS if shows_bounds and each.relation.window is not None else {}
            names = dict.fromkeys((*each.relation.keys, *bounds, *each.columns))
            yield from ((each, name) for name in names)

    def types(self) -> dict[str, Type]:
        """Return the types of all columns by their names inside the query."""
        return {self.internal(each, name): type for each in self.inputs for name, type in each.all_columns.items()}
