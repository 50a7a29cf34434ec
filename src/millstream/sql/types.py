"""The static types of SQL, and how they are written."""

from __future__ import annotations

from typing import Final

import msgspec

MAX_PRECISION: Final = 38


class Type(msgspec.Struct, frozen=True, order=True):
    """A type: its kind, and for DECIMAL, ARRAY, MAP and STRUCT what it consists of.

    >>> str(array(decimal(4, 2)))
    'ARRAY<DECIMAL(4, 2)>'
    """

    kind: str
    items: tuple[Type, ...] = ()
    names: tuple[str, ...] = ()
    """The names of the fields of a STRUCT."""
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.kind == "DECIMAL":
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.kind == "STRUCT":
            fields = (f"{quoted(name)} {item}" for name, item in zip(self.names, self.items, strict=True))
            return f"STRUCT<{', '.join(fields)}>"
        return f"{self.kind}<{', '.join(map(str, self.items))}>" if self.items else self.kind

    @property
    def fields(self) -> dict[str, Type]:
        """The fields of a STRUCT by name."""
        return dict(zip(self.names, self.items, strict=True))

    @property
    def is_number(self) -> bool:
        return self.kind in NUMBERS

    @property
    def is_time(self) -> bool:
        return self.kind in TIMES


BOOLEAN = Type("BOOLEAN")
INTEGER = Type("INTEGER")
BIGINT = Type("BIGINT")
DOUBLE = Type("DOUBLE")
STRING = Type("STRING")
BYTES = Type("BYTES")
DATE = Type("DATE")
TIME = Type("TIME")
TIMESTAMP = Type("TIMESTAMP")
NULL = Type("NULL")
UNIT = Type("UNIT")
"""A unit of time such as DAYS, an argument of some functions."""
LAMBDA = Type("LAMBDA")

NUMBERS = ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE")
TIMES = ("DATE", "TIME", "TIMESTAMP")
SIMPLE = {
    "BOOLEAN": BOOLEAN, "INTEGER": INTEGER, "INT": INTEGER, "BIGINT": BIGINT, "DOUBLE": DOUBLE, "STRING": STRING,
    "VARCHAR": STRING, "BYTES": BYTES, "DATE": DATE, "TIME": TIME, "TIMESTAMP": TIMESTAMP,
}  # fmt: skip
"""The types without parameters by all of their names."""


def decimal(precision: int, scale: int) -> Type:
    """Return a DECIMAL type."""
    return Type("DECIMAL", precision=precision, scale=scale)


def array(item: Type) -> Type:
    """Return an ARRAY type."""
    return Type("ARRAY", (item,))


def map_of(key: Type, value: Type) -> Type:
    """Return a MAP type."""
    return Type("MAP", (key, value))


def struct_of(fields: dict[str, Type]) -> Type:
    """Return a STRUCT type."""
    return Type("STRUCT", tuple(fields.values()), tuple(fields))


def quoted(name: str) -> str:
    """Return a name as it must be written in SQL."""
    return "`" + name.replace("`", "``") + "`"


def as_decimal(type: Type) -> Type:
    """Return the DECIMAL type that holds all values of a number type."""
    return {"INTEGER": decimal(10, 0), "BIGINT": decimal(19, 0)}.get(type.kind, type)


def contains(type: Type, kind: str) -> bool:
    """Whether a type is of a kind, or consists of such types."""
    return type.kind == kind or any(contains(item, kind) for item in type.items)
