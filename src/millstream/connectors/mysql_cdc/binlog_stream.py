"""The stream of events of the binary log, as a replica receives it.

PyMySQL has no public interface for it, but can connect, log in and send the command; what follows are packets that
are split here. There is no hidden reconnection: after an error the source is opened again at its last position.
"""

from __future__ import annotations

from struct import Struct
from typing import Any
from zlib import crc32

from millstream.connectors.mysql_cdc.connection import translated_errors
from millstream.connectors.mysql_cdc.events import FORMAT, ROTATE
from millstream.connectors.mysql_server import MysqlAddress
from millstream.errors import ConnectorError, TargetUnavailableError
from millstream.foundation.text import printable

_COM_BINLOG_DUMP = 0x12
_DUMP = Struct("<IHI")
_HEARTBEAT_SECONDS = 1.0
_SILENCE_SECONDS = 30.0
"""The server sends a heartbeat every second: after this time without one, the connection is lost."""
_RECEIVED_BYTES = 1 << 18
_MOST_BYTES = 1 << 20
_LONGEST_PACKET = 0xFFFFFF
_END = 0xFE
_KIND, _CHECKSUM_BYTES, _CRC32 = 4, 4, 1
_PURGED = 1236
_HEARTBEAT = int(_HEARTBEAT_SECONDS * 1e9)
_SETTINGS = (
    f"SET @master_heartbeat_period = {_HEARTBEAT}, @source_heartbeat_period = {_HEARTBEAT}",
    "SET @master_binlog_checksum = @@GLOBAL.binlog_checksum, @source_binlog_checksum = @@GLOBAL.binlog_checksum",
    "SET @mariadb_slave_capability = 4",  # events as they are in the log, with the ids of transactions
)


class BinlogStream:
    """Events from a place in the log on."""

    def __init__(self, address: MysqlAddress) -> None:
        with translated_errors():
            self._connection: Any = address.connect()
        self._socket: Any = self._connection._sock
        self._buffer = bytearray()
        self._parts: list[bytes] = []
        self._silent = 0.0
        self._has_checksums = False

    def start(self, file: str, offset: int, server_id: int) -> None:
        """Begin with the event at a place."""
        command = _DUMP.pack(offset, 0, server_id) + file.encode()
        with translated_errors():
            with self._connection.cursor() as cursor:
                for statement in _SETTINGS:
                    cursor.execute(statement)
                cursor.execute("SELECT @@GLOBAL.binlog_checksum")
                self._has_checksums = str(cursor.fetchone()[0]).upper() != "NONE"
            self._connection._execute_command(_COM_BINLOG_DUMP, command)

    def events(self, timeout: float) -> list[bytes]:
        """Return the events that have arrived, or that arrive within some seconds."""
        size = 0
        while size < _MOST_BYTES:
            data = self._receive(0.0 if size else timeout)
            if not data:
                break
            size += len(data)
            self._buffer += data
        return self._packets()

    def _receive(self, timeout: float) -> bytes:
        self._socket.settimeout(timeout)
        try:
            data: bytes = self._socket.recv(_RECEIVED_BYTES)
        except (TimeoutError, BlockingIOError):
            self._silent += timeout
            if self._silent > _SILENCE_SECONDS:
                raise _lost(f"nothing was heard for {self._silent:.0f} s") from None
            return b""
        except OSError as error:
            if type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError"):
                return b""
            raise _lost(str(error)) from error
        if not data:
            raise _lost("the server closed the connection")
        self._silent = 0.0
        return data

    def _packets(self) -> list[bytes]:
        """Split what was received; a part of a packet stays in the buffer."""
        buffer, at, end = bytes(self._buffer), 0, len(self._buffer)
        events = []
        while end - at >= 4:
            length = buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16
            if end - at - 4 < length:
                break
            payload = buffer[at + 4 : at + 4 + length]
            at += 4 + length
            if length == _LONGEST_PACKET:
                self._parts.append(payload)
                continue
            if self._parts:
                payload, self._parts = b"".join([*self._parts, payload]), []
            if payload[0]:
                _refuse(payload)
            events.append(self._checked(payload[1:]))
        del self._buffer[:at]
        return events

    def _checked(self, event: bytes) -> bytes:
        """Return an event without its checksum; the first event of each file says whether there are any."""
        kind = event[_KIND]
        if kind == FORMAT:
            self._has_checksums = event[-_CHECKSUM_BYTES - 1] == _CRC32
            return event[:-_CHECKSUM_BYTES]
        if not self._has_checksums:
            return event
        content = event[:-_CHECKSUM_BYTES]
        if kind != ROTATE and crc32(content) != int.from_bytes(event[-_CHECKSUM_BYTES:], "little"):
            raise _lost("an event has a wrong checksum")
        return content

    def close(self) -> None:
        self._connection._force_close()


def _refuse(payload: bytes) -> None:
    if payload[0] == _END:
        raise _lost("the server ended the stream")
    code = int.from_bytes(payload[1:3], "little")
    message = printable(payload[9:].decode(errors="replace"))[:300]
    if code == _PURGED:
        raise ConnectorError(
            f"the server cannot continue the stream: {message}",
            hint="reset the source, which reads all tables again",
        )
    raise _lost(f"{code}: {message}")


def _lost(reason: str) -> TargetUnavailableError:
    return TargetUnavailableError(f"the stream of the binary log ended: {reason}", hint="it is opened again")
