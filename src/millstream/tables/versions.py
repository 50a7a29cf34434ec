"""A table with history as its readers see it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from millstream.foundation.storage import open_environment
from millstream.plan.stages import HISTORY
from millstream.serdes import Serde
from millstream.state.task import store_database
from millstream.state.versioned import VersionedStore
from millstream.tables.rows import Row, TableEntry, TableReader


class Version(Row, frozen=True):
    """A version of a row, valid from ``timestamp`` on; its value is None while the row was deleted."""

    until: int | None = None
    """When the next version took its place; None if there is none yet."""


class VersionedTableReader(TableReader):
    """A table with history, read only: ``get`` knows the newest rows, ``get_as_of`` also those of earlier times."""

    def __init__(self, directory: Path, entry: TableEntry, key: Serde, value: Serde) -> None:
        super().__init__(directory, entry, key, value)
        assert entry.history is not None
        self._history = entry.history
        self._codec = value
        self._older = store_database(f"{entry.name}.{HISTORY}")
        self._databases = (self._database, self._older)

    def row_as_of(self, key: Any, time: int | datetime) -> Row | None:
        """Return the row that was valid at a time (milliseconds or a datetime), or None.

        From before the history only rows that are still the newest are known.
        """
        at = time if isinstance(time, int) else round(time.timestamp() * 1000)
        found = (store.get_as_of(key, at) for store in self._stores(key))
        return next((Row(key, *one) for one in found if one[0] is not None), None)

    def versions(self, key: Any) -> list[Version]:
        """Return the versions of a row that are still known, the newest first; empty if there was never one."""
        return [Version(key, *one) for store in self._stores(key) for one in store.versions(key)]

    def _stores(self, key: Any) -> Iterator[VersionedStore]:
        """Yield the stores in which a key can be, each in a snapshot of its own."""
        for path in self._paths_of(key):
            for txn, newest in self._snapshot(path):
                older = open_environment(path, (self._older,), readonly=True).databases[self._older]
                if older is not None:
                    yield VersionedStore(txn, newest, older, self._codec, self._history)

    def get_as_of(self, key: Any, time: int | datetime, default: Any = None) -> Any:
        """Return the value that a key had at a time, or ``default``."""
        row = self.row_as_of(key, time)
        return default if row is None else row.value
