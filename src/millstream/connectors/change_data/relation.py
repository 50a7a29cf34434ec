"""Tables and their columns, and what can happen to a row."""

from __future__ import annotations

import msgspec

INSERT, UPDATE, DELETE, READ = (ord(kind) for kind in "IUDr")
"""Operations on rows, as Postgres names them in its stream; READ is a row of a snapshot."""
FULL_IDENTITY = "f"
"""The server sends the whole row before a change."""


class RelationColumn(msgspec.Struct, frozen=True):
    """A column of a table, as the stream or the catalog of a server describes it."""

    name: str
    type: int
    """The object id of the type in Postgres; other systems use that of the type with the same texts."""
    modifier: int = -1
    is_key: bool = False


class ReplicatedTable(msgspec.Struct, frozen=True):
    """A table with its columns at some time."""

    schema: str
    table: str
    columns: tuple[RelationColumn, ...]
    oid: int = 0
    identity: str = "d"

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def key_indexes(self) -> list[int]:
        return [index for index, column in enumerate(self.columns) if column.is_key]
