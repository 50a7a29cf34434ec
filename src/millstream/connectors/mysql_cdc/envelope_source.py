"""The field ``source`` of Debezium's envelopes, for MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from millstream.connectors.change_data.changes import TableChanges
from millstream.connectors.change_data.debezium import SourceBlock
from millstream.connectors.change_data.relation import READ
from millstream.connectors.mysql_cdc.stream_state import BinlogState, LoggedTransaction

_UNKNOWN = LoggedTransaction("", "", 0)


def envelope_source(name: str, state: BinlogState, *, is_mariadb: bool) -> SourceBlock:
    """Return a function that says which transaction and place in the log a change comes from."""
    own_version = version("millstream")

    def source(changes: TableChanges, index: int) -> Mapping[str, Any]:
        microseconds = int(changes.times[index])
        is_snapshot = changes.operations[index] == READ
        transaction = state.transactions.get(int(changes.transactions[index]), _UNKNOWN)
        return {
            "version": own_version,
            "connector": "mariadb" if is_mariadb else "mysql",
            "name": name,
            "ts_ms": microseconds // 1000,
            "snapshot": "true" if is_snapshot else "false",
            "db": changes.relation.schema,
            "sequence": None,
            "ts_us": microseconds,
            "ts_ns": microseconds * 1000,
            "table": changes.relation.table,
            "server_id": transaction.server_id,
            "gtid": transaction.gtid or None,
            "file": transaction.file or state.file,
            "pos": int(changes.lsns[index]),
            "row": 0,
            "thread": None,
            "query": None,
        }

    return source
