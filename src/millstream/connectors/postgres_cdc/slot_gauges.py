"""What status, the dashboard and Prometheus show of a slot and of snapshots."""

from __future__ import annotations

from collections.abc import Callable

from millstream.connectors.change_data.snapshot_progress import SnapshotProgress
from millstream.connectors.postgres_cdc.catalog import DatabaseCatalog


class SlotGauges:
    """Looks at the slot and reports numbers."""

    def __init__(self, catalog: DatabaseCatalog, slot: str, report: Callable[[str, float], None]) -> None:
        self._catalog = catalog
        self._slot = slot
        self._report = report

    def report(self, progress: SnapshotProgress, chunks_reread: int, unknown_values: int) -> None:
        """Report how much of the log the server keeps, and how far the snapshots are."""
        slot = self._catalog.slot(self._slot)
        if slot is not None:
            self._report("retained_wal_bytes", slot.retained_bytes)
            self._report("slot_at_risk", float(slot.wal_status in ("unreserved", "lost")))
            if slot.safe_bytes is not None:
                self._report("safe_wal_bytes", slot.safe_bytes)
        self._report("snapshot_tables_left", len(progress.tables))
        self._report("snapshot_rows", progress.rows)
        self._report("snapshot_chunks_reread", chunks_reread)
        self._report("unknown_values", unknown_values)
