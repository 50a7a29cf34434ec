"""Where the source is: a place in the server's binary log, and how far the snapshots are."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from millstream.connectors.change_data.snapshot_progress import SnapshotProgress
from millstream.errors import ConnectorError
from millstream.foundation.typed_decoding import decode_json


class LogLocation(NamedTuple):
    """A place in the binary log; places of one server can be compared."""

    number: int
    """Of the file, from the end of its name."""
    offset: int


class BinlogPosition(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything that a reader needs to continue. It is JSON, so that it can be read by people."""

    server: str
    """The identifier of the server."""
    file: str
    offset: int
    """The end of a transaction. The stream continues with the next one."""
    gtid: str = ""
    """The last transaction before that, if the server numbers them."""
    taken: int = 0
    """How many row events of the next transaction were read, if it is a large one that was read in part."""
    tables: tuple[str, ...] = ()
    """Tables whose snapshot is complete."""
    snapshot: SnapshotProgress = SnapshotProgress()
    schemas: dict[str, str] = {}
    """A digest of the columns of each table that was read."""

    @property
    def location(self) -> LogLocation:
        return log_location(self.file, self.offset)

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self)


def log_location(file: str, offset: int) -> LogLocation:
    """Return a place that can be compared with others.

    >>> log_location("binlog.000009", 4) < log_location("binlog.000010", 4)
    True
    """
    number = file.rpartition(".")[2]
    if not number.isdecimal():
        raise ConnectorError(
            f"{file!r} is not the name of a file of the binary log", hint="set a position that a run has shown"
        )
    return LogLocation(int(number), offset)


def parse_position(data: bytes) -> BinlogPosition:
    """Read a position that a reader has returned."""
    try:
        return decode_json(data, BinlogPosition)
    except msgspec.MsgspecError as error:
        raise ConnectorError(
            f"the position {data[:200]!r} is not one of MySQL: {error}", hint="set a position that a run has shown"
        ) from error
