"""Projections and filters of streams that are data: expressions and types, from which workers generate the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from millstream.plan.node import Node
from millstream.serdes import Serde

NoteError: TypeAlias = Callable[[str, Exception, int], None]
"""Takes the part of the selection that failed, the error and the number of the record; the value is null then."""

Compute: TypeAlias = Callable[[Sequence[Any], Sequence[Any], Sequence[int], NoteError], list[Any]]
"""A function of keys, values and timestamps of consecutive records that returns one result for each."""


class CompiledSelection(NamedTuple):
    """The functions of a selection; each is None if that part of the records stays as it is."""

    where: Compute | None
    """Whether a record is kept."""
    key: Compute | None
    value: Compute | None
    explode: Compute | None
    """The values that replace a record, each time with the same key; instead of ``value``."""
    skips_null_keys: bool = False
    """Whether a record whose new key is null is left out."""


class Selection(Protocol):
    """What a ``Select`` does, as data that can be stored, compared and shown."""

    @property
    def query(self) -> str:
        """The query that it is part of, for messages; not part of what it does."""

    @property
    def replaces_values(self) -> bool:
        """Whether all values are computed."""

    def compile(self, *, structs: bool = False) -> CompiledSelection:
        """Return its functions, over values that are dicts or Structs."""

    def expression_of(self, part: str) -> str:
        """Return the text of one of its parts, as errors name them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Select(Node):
    """Filter records and compute their values; the key stays. An error in an expression makes a value null."""

    source: Node
    selection: Selection
    key: Serde | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelectRekeyed(Select):
    """Compute the key too."""


SELECTIONS = (Select, SelectRekeyed)


def takes_structs(node: Node, readers: Mapping[Node, Sequence[tuple[Node, int]]]) -> bool:
    """Whether only selections see the values of a node, so that rows can be Structs instead of dicts."""
    return bool(readers[node]) and all(
        isinstance(reader, SELECTIONS) and (reader.selection.replaces_values or takes_structs(reader, readers))
        for reader, _ in readers[node]
    )
