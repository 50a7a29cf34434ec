"""The columns of the tables, which may change while they are read."""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal, TypeAlias

import msgspec

from millstream.connectors.postgres_cdc.catalog import DatabaseCatalog
from millstream.connectors.postgres_cdc.messages import FULL_IDENTITY, ReplicatedTable
from millstream.errors import ConnectorError

OnSchemaChange: TypeAlias = Literal["follow", "stop"]
"""follow: records have the new columns from then on; stop: the source stops before the first of them."""


class Schemas:
    """Remembers the columns of each table by a digest."""

    def __init__(self, digests: dict[str, str], catalog: DatabaseCatalog, on_change: OnSchemaChange) -> None:
        self.digests = dict(digests)
        self._catalog = catalog
        self._on_change = on_change

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
        self._remember(relation)
        return relation

    def _remember(self, relation: ReplicatedTable) -> None:
        digest = blake2b(msgspec.json.encode(relation.columns), digest_size=8).hexdigest()
        known = self.digests.get(relation.name, digest)
        if known != digest and self._on_change == "stop":
            names = ", ".join(column.name for column in relation.columns)
            raise ConnectorError(
                f"the columns of table {relation.name} have changed to {names}",
                hint="set on_schema_change='follow' once the readers of its topic are ready",
            )
        self.digests[relation.name] = digest
