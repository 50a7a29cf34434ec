"""The columns of the tables, which may change while they are read."""

from __future__ import annotations

import msgspec

from millstream.connectors.change_data.relation import FULL_IDENTITY, ReplicatedTable
from millstream.connectors.change_data.schema_digests import OnSchemaChange, SchemaDigests
from millstream.connectors.postgres_cdc.catalog import DatabaseCatalog
from millstream.errors import ConnectorError


class Schemas:
    """Remembers the columns of each table by a digest."""

    def __init__(self, digests: dict[str, str], catalog: DatabaseCatalog, on_change: OnSchemaChange) -> None:
        self.digests = SchemaDigests(digests, on_change)
        self._catalog = catalog

    def described(self, relation: ReplicatedTable) -> ReplicatedTable:
        """Return a table as the stream describes it, with the key that it has in the catalog if its identity is full.

        A relation message marks the key columns, but all columns if the identity is full.
        """
        if relation.identity == FULL_IDENTITY:
            current = self._catalog.relation(relation.name)
            keys = {column.name for column in current.columns if column.is_key} if current is not None else set()
            columns = tuple(
                msgspec.structs.replace(column, is_key=column.name in keys or not keys) for column in relation.columns
            )
            relation = msgspec.structs.replace(relation, columns=columns)
        if not relation.key_indexes:
            raise ConnectorError(f"table {relation.name} has no key", hint="add a primary key")
        self.digests.remember(relation)
        return relation
