"""Show on the driver how far tasks have restored their states on the hosts of a cluster.

A worker that restores sends a message to the driver from time to time. Nothing depends on these messages: if the driver
cannot be reached, the restore goes on without them.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator

import msgspec

from millstream.batch.activity import Activity
from millstream.batch.restoring import TaskRestore, parallel_restore
from millstream.spark.hosts import host_name
from millstream.spark.peer_sockets import Address, Peer, PeerServer, connect
from millstream.task.changelog import CatchUp, OnTaskRestore, ignore_restore

_INTERVAL_SECONDS = 1.0
_decode = msgspec.msgpack.Decoder(TaskRestore).decode


class ProgressAddress(msgspec.Struct, frozen=True):
    """Where workers send their progress."""

    driver: Address
    secret: bytes


class RestoreProgress:
    """The driver's side: makes the restores of the batch that is running the activity of the app."""

    def __init__(self, host: str, listening_host: str, activity: Activity) -> None:
        """Listen at an address; ``host`` is the one at which workers reach it."""
        self._activity = activity
        self._lock = threading.Lock()
        self._restores: dict[str, TaskRestore] | None = None
        """By task; None while no batch runs."""
        secret = secrets.token_bytes(32)
        self._server: PeerServer | None = None
        self.address: ProgressAddress | None = None
        with contextlib.suppress(OSError):  # no port is free: there is no progress
            self._server = PeerServer(listening_host, secret, self._receive)
            self.address = ProgressAddress((host, self._server.port), secret)

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Show the progress that arrives within this block, which runs a batch; then show the batch again."""
        before = self._activity.now
        with self._lock:
            self._restores = {}
        try:
            yield
        finally:
            with self._lock:
                if self._restores:
                    self._activity.set(before.what, before.effort)  # from now on: the batch was not stuck
                self._restores = None

    def _receive(self, _peer: Peer, message: bytes) -> None:
        restore = _decode(message)
        with self._lock:
            if self._restores is not None:
                self._restores[restore.task] = restore
                self._activity.set(parallel_restore(self._restores.values()), "working")

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()


def sender_to(address: ProgressAddress | None, clock: Callable[[], float] = time.monotonic) -> OnTaskRestore:
    """Return what a worker calls while it restores tasks: sends progress to the driver, at most once a second."""
    return ignore_restore if address is None else _Sender(address, clock)


class _Sender:
    def __init__(self, address: ProgressAddress, clock: Callable[[], float]) -> None:
        self._address: ProgressAddress | None = address
        self._clock = clock
        self._task = ""
        self._began = self._sent = 0.0

    def __call__(self, task: str, progress: CatchUp) -> None:
        now = self._clock()
        if task != self._task:
            self._task, self._began, self._sent = task, now, now
        is_done_late = progress.part >= 1.0 and self._sent > self._began
        if self._address is None or (now - self._sent < _INTERVAL_SECONDS and not is_done_late):
            return
        self._sent = now
        message = msgspec.msgpack.encode(TaskRestore(task, host_name(), progress, now - self._began))
        try:
            connect(self._address.driver, self._address.secret, message).close()
        except (OSError, EOFError, PermissionError):
            self._address = None
