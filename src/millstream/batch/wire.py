"""The wire between a driver and its resident task: reports come one way, "leave" goes the other.

Each side learns from it at once that the other one is gone, by whatever death.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self

import msgspec

from millstream.batch.report import BatchReport

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(BatchReport).decode
_LEAVE = b"leave"


class DriverEnd:
    """The driver's end: a socket in a directory of its own, to which one resident task at a time connects."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="millstream-"))
        self.address = str(self._directory / "wire")
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.address)
        self._server.listen(1)
        self._line: Connection | None = None
        self._has_asked = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def report(self, timeout: float) -> BatchReport | None:
        """Return the next report, or None if none came in time."""
        if self._line is None and not self._answered(timeout):
            return None
        assert self._line is not None
        try:
            if not self._line.poll(timeout):
                return None
            return _decode(self._line.recv_bytes())
        except (EOFError, OSError):
            self._hang_up()
            return None

    def _answered(self, timeout: float) -> bool:
        self._server.settimeout(timeout)
        try:
            line, _ = self._server.accept()
        except (TimeoutError, BlockingIOError):
            return False
        line.setblocking(True)
        self._line = Connection(line.detach())
        self._has_asked = False
        return True

    def ask_to_leave(self) -> None:
        """Have the resident task finish its batch and return."""
        if self._line is not None and not self._has_asked:
            self._has_asked = True
            with contextlib.suppress(OSError):
                self._line.send_bytes(_LEAVE)

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def close(self) -> None:
        """Hang up, upon which a resident task leaves."""
        self._hang_up()
        self._server.close()
        shutil.rmtree(self._directory, ignore_errors=True)


class TaskEnd:
    """The resident task's end; ``left`` is set when the driver wants it to leave, or is gone."""

    def __init__(self, address: str) -> None:
        line = socket.socket(socket.AF_UNIX)
        line.connect(address)
        self._line = Connection(line.detach())
        self.left = threading.Event()
        self._ear = threading.Thread(target=self._listen, name="millstream-wire", daemon=True)
        self._ear.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            self._line.recv_bytes()
        self.left.set()

    def tell(self, report: BatchReport) -> None:
        """Send a report."""
        try:
            self._line.send_bytes(_encode(report))
        except OSError:
            self.left.set()
