"""The field ``source`` of Debezium's envelopes, for Postgres."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from millstream.connectors.change_data.changes import TableChanges
from millstream.connectors.change_data.debezium import SourceBlock
from millstream.connectors.change_data.relation import READ


def envelope_source(name: str, database: str) -> SourceBlock:
    """Return a function that says which transaction and place in the log a change comes from."""
    own_version = version("millstream")

    def source(changes: TableChanges, index: int) -> Mapping[str, Any]:
        microseconds, lsn = int(changes.times[index]), int(changes.lsns[index])
        is_snapshot = changes.operations[index] == READ
        return {
            "version": own_version,
            "connector": "postgresql",
            "name": name,
            "ts_ms": microseconds // 1000,
            "snapshot": "true" if is_snapshot else "false",
            "db": database,
            "sequence": f'[null,"{lsn}"]',
            "ts_us": microseconds,
            "ts_ns": microseconds * 1000,
            "schema": changes.relation.schema,
            "table": changes.relation.table,
            "txId": None if is_snapshot else int(changes.transactions[index]),
            "lsn": lsn,
            "xmin": None,
            "origin": None,
            "origin_lsn": None,
        }

    return source
