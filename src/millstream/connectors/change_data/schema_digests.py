"""The columns of the tables, which may change while they are read."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal, TypeAlias

import msgspec

from millstream.connectors.change_data.relation import ReplicatedTable
from millstream.errors import ConnectorError

OnSchemaChange: TypeAlias = Literal["follow", "stop"]
"""follow: records have the new columns from then on; stop: the source stops before the first of them."""


class SchemaDigests(dict[str, str]):
    """Remembers the columns of each table by a digest."""

    def __init__(self, digests: Mapping[str, str], on_change: OnSchemaChange) -> None:
        super().__init__(digests)
        self._on_change = on_change

    def remember(self, relation: ReplicatedTable) -> None:
        """Learn the columns of a table, or stop if they have changed and are not to be followed."""
        digest = blake2b(msgspec.json.encode(relation.columns), digest_size=8).hexdigest()
        known = self.get(relation.name, digest)
        if known != digest and self._on_change == "stop":
            names = ", ".join(column.name for column in relation.columns)
            raise ConnectorError(
                f"the columns of table {relation.name} have changed to {names}",
                hint="set on_schema_change='follow' once the readers of its topic are ready",
            )
        self[relation.name] = digest
