"""Opens the source: checks that the server has everything since the position, and creates what is missing."""

from __future__ import annotations

import msgspec

from millstream.connect.protocols import ConnectorContext
from millstream.connectors.change_data.snapshot_progress import SnapshotProgress, with_tables
from millstream.connectors.postgres_cdc.catalog import START_OVER, DatabaseCatalog, SlotInfo, refuse, slot_problems
from millstream.connectors.postgres_cdc.connection import ReplicationStream
from millstream.connectors.postgres_cdc.position import Position, parse_lsn
from millstream.connectors.postgres_cdc.row_store import RowStore
from millstream.errors import ConnectorError


class ServerNames(msgspec.Struct, frozen=True):
    """What the source is called on the server."""

    slot: str
    publication: str
    database: str


def first_position(stream: ReplicationStream, catalog: DatabaseCatalog, names: ServerNames) -> tuple[Position, bool]:
    """Return where a new source begins, and whether its slot was created for it."""
    system, timeline = stream.identify()
    slot = catalog.slot(names.slot)
    is_new = slot is None
    if slot is None:
        catalog.create_slot(names.slot)
        slot = catalog.slot(names.slot)
    assert slot is not None
    refuse(slot_problems(names.slot, slot, names.database))
    return Position(system=system, timeline=timeline, lsn=slot.confirmed or "0/0"), is_new


def check_position(position: Position, stream: ReplicationStream, catalog: DatabaseCatalog, names: ServerNames) -> None:
    """Refuse a position from which the server cannot continue without a gap."""
    system, timeline = stream.identify()
    if system != position.system:
        raise ConnectorError(
            f"the server has the identifier {system}, but the position is one of {position.system}",
            hint=f"connect to the server that was read before, or {START_OVER}",
        )
    if timeline != position.timeline:
        raise ConnectorError(
            f"the server is on timeline {timeline}, but the position is one of timeline {position.timeline}",
            hint=f"another server has taken over, and may not have all changes that were read; {START_OVER}",
        )
    slot = catalog.slot(names.slot)
    if slot is None:
        raise ConnectorError(f"slot {names.slot!r} does not exist any longer", hint=f"changes are lost; {START_OVER}")
    refuse(slot_problems(names.slot, slot, names.database))
    if _is_behind(position, slot):
        raise ConnectorError(
            f"slot {names.slot!r} was moved to {slot.confirmed}, but {position.lsn} is the last that was read",
            hint=f"the changes in between are lost; {START_OVER}",
        )


def _is_behind(position: Position, slot: SlotInfo) -> bool:
    return slot.confirmed is not None and parse_lsn(slot.confirmed) > parse_lsn(position.lsn)


def with_snapshots(
    position: Position, tables: list[str], catalog: DatabaseCatalog, *, is_new_slot: bool, reads_rows: bool
) -> Position:
    """Return the position with a snapshot of each table that was not read before.

    A transaction that began before its table was published is not streamed. A new slot has waited for these to end;
    otherwise the snapshot does.
    """
    done, progress = with_tables(position.tables, position.snapshot, tables, reads_rows=reads_rows)
    if not is_new_slot and set(progress.tables) - set(position.snapshot.tables):
        progress = msgspec.structs.replace(progress, barrier=catalog.new_transaction())
    return msgspec.structs.replace(position, tables=done, snapshot=progress)


def recovered(position: Position, store: RowStore, *, reads_rows: bool) -> Position:
    """Bring the stored rows in step with the position; read all tables again if the rows are lost."""
    if store.recover(position.rows, position.staged) or not position.rows:
        return msgspec.structs.replace(position, rows=store.id, staged=store.staged)
    if not reads_rows:
        return msgspec.structs.replace(position, rows=store.id, staged=0)
    tables = (*position.snapshot.tables, *position.tables)
    progress = SnapshotProgress(tables, barrier=position.snapshot.barrier)
    return msgspec.structs.replace(position, rows=store.id, staged=0, tables=(), snapshot=progress)


def rows_directory(context: ConnectorContext, keep: str) -> RowStore:
    """Open the store; rows that were kept in another way do not count."""
    return RowStore(context.directory / f"rows-{keep}")
