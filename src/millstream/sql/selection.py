"""What SQL does with records, as data that plans contain: selections of streams, and functions of tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import Any

import msgspec

from millstream.foundation.struct_rows import ProjectedRows
from millstream.foundation.value_errors import Origin
from millstream.functions import ComputeColumns, Context, Function, Locate
from millstream.plan.select import CompiledSelection, Compute, NoteError
from millstream.sql.compiled import CONDITION, Part, Scope, clause, key_shape, list_shape, parse_type, record_shape

Named = tuple[tuple[str, str], ...]
"""Names and expressions."""


class SqlSelection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A WHERE, new keys and new columns; expressions are normalised SQL over the columns of ``scope``."""

    scope: Scope
    where: str | None = None
    key: tuple[str, ...] | None = None
    keeps_null_keys: bool = True
    """Whether a key that is null, or has a null column, is kept."""
    columns: Named | None = None
    types: tuple[str, ...] = ()
    """The types to which columns are converted; empty to keep those of the expressions."""
    arguments: tuple[str, ...] | None = None
    """Expressions for aggregates: the value becomes a list."""
    exploded: tuple[int, ...] = ()
    """The numbers of the columns that are lists and become one record for each item."""
    query: str = ""
    """The query that it is part of, for messages."""

    def compile(self, *, structs: bool = False) -> CompiledSelection:
        """Return its functions, over values that are dicts or Structs."""
        where = None
        if self.where is not None:
            where = clause(self.scope, [Part("WHERE", self.where)], CONDITION, "where", structs=structs)
        value = self._compile_value(structs=structs)
        return CompiledSelection(
            where=where,
            key=self._compile_key(structs=structs),
            value=None if self.exploded else value,
            explode=_exploding(value, self) if self.exploded and value is not None else None,
            skips_null_keys=not self.keeps_null_keys and self.key is not None,
        )

    def expression_of(self, part: str) -> str:
        """Return the text of one of its parts, as errors name them; of an unknown part nothing."""
        kind, _, number = part.rpartition(" ")
        numbered = {"key": self.key, "argument": self.arguments}.get(kind)
        if numbered is not None and number.isdigit():
            return numbered[int(number) - 1]
        return self.where or "" if part == "WHERE" else dict(self.columns or ()).get(part, "")

    @property
    def aggregated(self) -> str | None:
        """What is grouped and aggregated, as text; None if it is not for aggregates."""
        if self.arguments is None:
            return None
        groups = "" if self.key is None else f" by {', '.join(self.key)}"
        return f"{', '.join(self.arguments)}{groups}"

    @property
    def replaces_values(self) -> bool:
        return self.arguments is not None or self.columns is not None

    def _compile_key(self, *, structs: bool) -> Compute | None:
        """Return the function of keys."""
        if self.key is None:
            return None
        if not self.key:
            return lambda keys, _values, _times, _note: [None] * len(keys)
        parts = [Part(f"key {number + 1}", text) for number, text in enumerate(self.key)]
        compute = clause(self.scope, parts, key_shape(len(parts)), "key", structs=structs)
        if self.keeps_null_keys or len(parts) == 1:
            return compute
        return lambda keys, values, times, note: [
            None if None in key else key for key in compute(keys, values, times, note)
        ]

    def _compile_value(self, *, structs: bool) -> Compute | None:
        """Return the function of values."""
        if self.arguments is not None:
            parts = [Part(f"argument {number + 1}", text) for number, text in enumerate(self.arguments)]
            return clause(self.scope, parts, list_shape(len(parts)), "arguments", structs=structs)
        if self.columns is None:
            return None
        parts = [Part(name, text) for name, text in self.columns]
        wanted = [parse_type(text) for text in self.types]
        names = tuple(part.name for part in parts)
        compute = clause(self.scope, parts, record_shape(names), "columns", wanted, structs=structs)
        if not structs:
            return compute
        return lambda keys, values, times, note: ProjectedRows(compute(keys, values, times, note), names)


def _exploding(compute: Compute, selection: SqlSelection) -> Compute:
    """Return what makes several rows of each: one for each item of the longest list, others are null at the end."""
    names = [name for name, _ in selection.columns or ()]
    exploded = [names[number] for number in selection.exploded]

    def explode(keys: Sequence[Any], values: Sequence[Any], times: Sequence[int], note: NoteError) -> list[Any]:
        return [_rows(row, exploded) for row in compute(keys, values, times, note)]

    return explode


def _rows(row: dict[str, Any] | None, exploded: list[str]) -> list[dict[str, Any]]:
    if row is None:
        return []
    lists = [row[name] or () for name in exploded]
    return [{**row, **dict(zip(exploded, items, strict=True))} for items in zip_longest(*lists)]


class SqlFunction(Function):
    """A function of a table's rows that is data: one clause of a selection."""

    __slots__ = ("__dict__", "clause", "selection")

    def __init__(self, selection: SqlSelection, clause: str) -> None:
        self.selection = selection
        self.clause = clause
        super().__init__(self._call, 2)

    @property
    def name(self) -> str:
        meaning = msgspec.structs.replace(self.selection, query="")  # two queries can have the same step
        return f"sql:{self.clause}:{msgspec.json.encode(meaning).decode()}"

    def computes_same_as(self, other: Function) -> bool:
        """Whether both are the same clause of the same selection."""
        return isinstance(other, SqlFunction) and self.name == other.name

    @cached_property
    def _compute(self) -> Compute:
        compiled = self.selection.compile()
        compute: Compute | None = getattr(compiled, self.clause)
        assert compute is not None
        return compute

    def _call(self, key: Any, value: Any) -> Any:
        return self._compute([key], [value], [0], _ignore)[0]

    def bind(self, context: Context) -> Callable[[Any, Any], Any]:
        """Return a function of key and value; errors in expressions are counted in the context."""
        compute, note = (
            self._compute,
            self._noting(context, lambda _: (context.topic, context.partition, context.offset)),
        )
        return lambda key, value: compute([key], [value], [0], note)[0]

    def bind_columns(self, context: Context) -> ComputeColumns:
        """Return what computes the results of many rows together; errors in expressions are counted in the context."""
        compute = self._compute

        def compute_columns(keys: list[Any], values: list[Any], locate: Locate) -> list[Any]:
            return list(compute(keys, values, [0] * len(keys), self._noting(context, locate)))

        return compute_columns

    def _noting(self, context: Context, locate: Locate) -> NoteError:
        errors, selection = getattr(context, "errors", None), self.selection

        def note(part: str, error: Exception, row: int) -> None:
            def origin() -> Origin:
                topic, partition, offset = locate(row)
                expression = selection.expression_of(part)
                return Origin(
                    query=selection.query,
                    part=part,
                    expression=expression,
                    topic=topic,
                    partition=partition,
                    offset=offset,
                )

            if errors is not None:
                errors.note(part, error, origin)

        return note


def _ignore(_part: str, _error: Exception, _row: int) -> None:
    """Ignore an error in an expression: its value is null."""


class JoinedRows(Function):
    """The joiner of two rows: the columns of both, null for those of a missing row."""

    def __init__(self, left: Sequence[str], right: Sequence[str]) -> None:
        self._left = dict.fromkeys(left)
        self._right = dict.fromkeys(right)
        super().__init__(self._join, 2)

    @property
    def name(self) -> str:
        return f"sql:join:{','.join(self._left)}:{','.join(self._right)}"

    def _join(self, left: dict[str, Any] | None, right: dict[str, Any] | None) -> dict[str, Any]:
        return {**(self._left if left is None else left), **(self._right if right is None else right)}
