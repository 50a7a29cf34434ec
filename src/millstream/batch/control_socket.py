"""The control socket between a driver and its resident task: reports go to the driver, a stop request comes back.

Each side notices at once when the other process ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Self

import msgspec

from millstream.batch.report import BatchReport

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(BatchReport).decode
_STOP = b"stop"
_WAITING = b""
_WAITING_SECONDS = 1.0


class DriverSocket:
    """The driver's end: a Unix socket in a private directory, to which one resident task at a time connects."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="millstream-"))
        self.address = str(self._directory / "control")
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.address)
        self._server.listen(1)
        self._connection: Connection | None = None
        self._has_requested_stop = False
        self.on_waiting: Callable[[], None] = lambda: None
        """Called while the resident task waits for records."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_connected(self) -> bool:
        """Whether a resident task is connected."""
        return self._connection is not None

    def receive_report(self, timeout: float) -> BatchReport | None:
        """Return the next report, or None if none arrives in time."""
        if self._connection is None and not self._accept(timeout):
            return None
        assert self._connection is not None
        try:
            while self._connection.poll(timeout):
                message = self._connection.recv_bytes()
                if message != _WAITING:
                    return _decode(message)
                self.on_waiting()
                timeout = 0.0  # a task that waits must not block the driver
        except (EOFError, OSError):
            self._disconnect()
        return None

    def _accept(self, timeout: float) -> bool:
        self._server.settimeout(timeout)
        try:
            connected, _ = self._server.accept()
        except (TimeoutError, BlockingIOError):
            return False
        connected.setblocking(True)
        self._connection = Connection(connected.detach())
        self._has_requested_stop = False
        return True

    def request_stop(self) -> None:
        """Ask the resident task to finish its batch and return."""
        if self._connection is not None and not self._has_requested_stop:
            self._has_requested_stop = True
            with contextlib.suppress(OSError):
                self._connection.send_bytes(_STOP)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Close the connection, which makes a resident task return."""
        self._disconnect()
        self._server.close()
        shutil.rmtree(self._directory, ignore_errors=True)


class TaskSocket:
    """The resident task's end; ``stop_requested`` is set when the driver asks the task to stop, or is gone."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(address)
        self._connection = Connection(os.dup(self._socket.fileno()))
        self._sending = threading.Lock()
        self._next_waiting = 0.0
        self.stop_requested = threading.Event()
        self._listener = threading.Thread(target=self._listen, name="millstream-control", daemon=True)
        self._listener.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # the driver may be gone
            self._socket.shutdown(socket.SHUT_RDWR)  # ends the listener; a descriptor in use must not be closed
        self._listener.join()
        self._connection.close()
        self._socket.close()

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            self._connection.recv_bytes()
        self.stop_requested.set()

    def send_report(self, report: BatchReport) -> None:
        """Send a report to the driver."""
        self._send(_encode(report))

    def send_waiting(self) -> None:
        """Let the driver know that the task waits for records and is not stuck; at most once a second."""
        if time.monotonic() >= self._next_waiting:
            self._next_waiting = time.monotonic() + _WAITING_SECONDS
            self._send(_WAITING)

    def _send(self, message: bytes) -> None:
        try:
            with self._sending:
                self._connection.send_bytes(message)
        except OSError:
            self.stop_requested.set()
