"""The reader of a table with history."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from millstream.foundation.storage import open_environment
from millstream.foundation.type_variables import Key, Value
from millstream.plan.stages import HISTORY
from millstream.serdes import Serde
from millstream.state.task import store_database
from millstream.state.versioned import VersionedStore
from millstream.tables.rows import Copies, Row, TableEntry, TableReader, Version


class VersionedTableReader(TableReader[Key, Value]):
    """A read-only table with history: ``get`` finds current rows, ``get_as_of`` also earlier ones."""

    def __init__(
        self, directory: Path, entry: TableEntry, key: Serde, value: Serde, copies: Copies | None = None
    ) -> None:
        super().__init__(directory, entry, key, value, copies)
        assert entry.history is not None
        self._history = entry.history
        self._codec = value
        self._older = store_database(f"{entry.name}.{HISTORY}")
        self._databases = (self._database, self._older)

    def row_as_of(self, key: Key, time: int | datetime) -> Row[Key, Value] | None:
        """Return the row that was valid at a time (milliseconds or a datetime), or None.

        Before the start of the history it finds only rows that are still current.
        """
        at = time if isinstance(time, int) else round(time.timestamp() * 1000)
        versions = (store.get_as_of(key, at) for store in self._stores(key))
        return next((Row(key, *version) for version in versions if version[0] is not None), None)

    def versions(self, key: Key) -> list[Version[Key, Value]]:
        """Return the versions of a row that are still kept, the newest first; empty if there never was one."""
        return [Version(key, *version) for store in self._stores(key) for version in store.versions(key)]

    def _stores(self, key: Key) -> Iterator[VersionedStore]:
        """Yield the stores that can contain a key, each in its own snapshot."""
        for path in self._paths_of(key):
            for txn, current in self._snapshot(path):
                older = open_environment(path, (self._older,), readonly=True).databases[self._older]
                if older is not None:
                    yield VersionedStore(txn, current, older, self._codec, self._history)

    def get_as_of(self, key: Key, time: int | datetime, default: Any = None) -> Any:
        """Return the value of a key at a time, or ``default``."""
        row = self.row_as_of(key, time)
        return default if row is None else row.value
