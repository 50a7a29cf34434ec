"""Rows as Structs, which msgspec decodes faster than dicts; only steps that compute columns by name get them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, ClassVar

import msgspec

_NO_VALUE: Any = Annotated[int, msgspec.Meta(ge=1, le=0)]


class StructRow(msgspec.Struct, gc=False):
    """A row with all its columns, none of them missing."""

    column_names: ClassVar[tuple[str, ...]] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the row as other steps know it: a dict by column."""
        return dict(zip(self.column_names, msgspec.structs.astuple(self), strict=False))  # refused names come last


def attribute_of(column: str) -> str:
    """Return the name of the attribute for a column, whose name can contain any character."""
    return f"c_{column.encode().hex()}"


def struct_type(
    types: Mapping[str, Any], names_in_json: Mapping[str, str], refused: Collection[str] = ()
) -> type[StructRow]:
    """Return the type of rows with these columns; an object with one of the refused names cannot be decoded to it."""
    row: Any = msgspec.defstruct(
        "row",
        [
            *((attribute_of(column), kind) for column, kind in types.items()),
            *((f"refused_{attribute_of(name)}", _NO_VALUE, 0) for name in refused),
        ],
        bases=(StructRow,),
        namespace={"column_names": tuple(types)},
        rename={
            **{attribute_of(column): name for column, name in names_in_json.items()},
            **{f"refused_{attribute_of(name)}": name for name in refused},
        },
        gc=False,
    )
    kind: type[StructRow] = row
    return kind


class ProjectedRows(list[Any]):
    """Rows as dicts that all have exactly these columns in this order, so that encoding need not check it again."""

    __slots__ = ("column_names",)

    def __init__(self, rows: Iterable[dict[str, Any]], column_names: tuple[str, ...]) -> None:
        super().__init__(rows)
        self.column_names = column_names


def are_structs(values: list[Any]) -> bool:
    """Whether the values are rows as Structs: all of a batch are, or none."""
    return bool(values) and isinstance(values[0], StructRow)


def as_dicts(values: Iterable[Any]) -> list[Any]:
    """Return rows as dicts; other values stay as they are."""
    return [value.as_dict() if isinstance(value, StructRow) else value for value in values]
