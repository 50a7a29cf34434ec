"""Where the source is: a place in the server's log, and how far the snapshots are."""

from __future__ import annotations

import msgspec

from millstream.connectors.change_data.snapshot_progress import SnapshotProgress
from millstream.errors import ConnectorError
from millstream.foundation.typed_decoding import decode_json


class Position(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything that a reader needs to continue. It is JSON, so that it can be read by people."""

    system: str
    timeline: int
    lsn: str
    """The end of a commit. The stream continues with the next one."""
    transaction: int = 0
    """A large transaction after ``lsn`` that was read in part, 0 if there is none."""
    taken: int = 0
    """How many messages of that transaction were read."""
    tables: tuple[str, ...] = ()
    """Tables whose snapshot is complete."""
    snapshot: SnapshotProgress = SnapshotProgress()
    streamed: tuple[int, ...] = ()
    """Transactions that were streamed before a snapshot of the server could see them."""
    schemas: dict[str, str] = {}
    """A digest of the columns of each table that was read."""
    rows: str = ""
    """Identifies the state with the rows; see ``row_store``."""
    staged: int = 0
    """The number of changes of that state."""

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self)


def parse_position(data: bytes) -> Position:
    """Read a position that a reader has returned."""
    try:
        return decode_json(data, Position)
    except msgspec.MsgspecError as error:
        raise ConnectorError(
            f"the position {data[:200]!r} is not one of Postgres: {error}", hint="set a position that a run has shown"
        ) from error


def lsn_text(lsn: int) -> str:
    """Return a place in the log as Postgres writes it.

    >>> lsn_text(0x16B374D848), parse_lsn("16/B374D848") == 0x16B374D848
    ('16/B374D848', True)
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """Return a place in the log as a number."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)
