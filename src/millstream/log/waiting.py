"""Wake-ups between processes: a waiter is a named pipe in a directory, a writer puts a byte into each.

A waiter registers first and looks at the log second; a writer commits first and looks for waiters second. So
whichever comes late sees the other. A pipe that nobody reads belongs to a dead process and is removed; so a new one
gets its name when it is read.
"""

from __future__ import annotations

import errno
import os
import select
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from time import monotonic, time
from uuid import uuid4

from millstream.foundation.storage import make_private_directory, translate_storage_errors

_UNREAD = "."
_UNREAD_SECONDS = 60.0
_MANY = 65_536  # bytes in a pipe: more wake-ups than one wait can miss


def notify(directory: Path) -> None:
    """Wake everybody who waits in ``directory``."""
    try:
        names = os.listdir(directory)  # noqa: PTH208 - a third of the cost of iterdir, on every append
    except FileNotFoundError:
        return
    for name in names:
        if not name.startswith(_UNREAD):
            _ring(directory / name)


def _ring(pipe: Path) -> None:
    try:
        end = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            pipe.unlink(missing_ok=True)
        elif error.errno != errno.ENOENT:
            raise
        return
    try:
        os.write(end, b"!")
    except BlockingIOError:
        pass  # full of wake-ups already
    finally:
        os.close(end)


class Waiter:
    """One thread's ear: it listens in any number of directories and is used for wait after wait."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._pipes: dict[Path, _Pipe] = {}
        self._process = os.getpid()

    def wait(self, directories: Iterable[Path], ready: Callable[[], bool], timeout: float) -> bool:
        """Block until ``ready`` holds, looking again whenever one of the directories is notified."""
        self._listen(set(directories))
        deadline = monotonic() + timeout
        while True:
            self._drain()
            if ready():
                return True
            left = deadline - monotonic()
            if left <= 0:
                return False
            self._poll.poll(left * 1000)

    def _listen(self, directories: set[Path]) -> None:
        for gone in self._pipes.keys() - directories:
            pipe = self._pipes.pop(gone)
            self._poll.unregister(pipe.end)
            pipe.close()
        for directory in directories:
            if directory not in self._pipes:
                self._pipes[directory] = pipe = _Pipe(directory)
                self._poll.register(pipe.end, select.POLLIN)

    def _drain(self) -> None:
        for pipe in self._pipes.values():
            pipe.drain()

    @property
    def is_ours(self) -> bool:
        """Whether this process made it, and did not inherit it by ``fork``."""
        return self._process == os.getpid()

    def close(self) -> None:
        """Stop listening."""
        self._listen(set())


class _Pipe:
    """A named pipe with both ends held, so that it neither ends nor blocks its writers."""

    def __init__(self, directory: Path) -> None:
        name = uuid4().hex
        path, unread = directory / name, directory / f"{_UNREAD}{name}"
        ends: list[int] = []
        with translate_storage_errors(directory):
            make_private_directory(directory)
            _clear_unread(directory)
            try:
                os.mkfifo(unread, 0o600)
                ends.append(os.open(unread, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
                ends.append(os.open(unread, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
                with suppress(FileNotFoundError):  # the topic has just been deleted, which its reader finds out
                    os.rename(unread, path)  # noqa: PTH104 - one of these calls like the other
            except BaseException:
                for end in ends:
                    os.close(end)
                unread.unlink(missing_ok=True)
                raise
        self.end, other = ends
        self.close = weakref.finalize(self, _forget, path, self.end, other, os.getpid())

    def drain(self) -> None:
        with suppress(BlockingIOError):
            os.read(self.end, _MANY)


def _clear_unread(directory: Path) -> None:
    """Remove the pipes of processes that died before they could give them a name."""
    for pipe in directory.glob(f"{_UNREAD}*"):
        with suppress(FileNotFoundError):
            if time() - pipe.stat().st_mtime > _UNREAD_SECONDS:
                pipe.unlink()


def _forget(path: Path, end: int, other: int, process: int) -> None:
    os.close(end)
    os.close(other)
    if process == os.getpid():
        path.unlink(missing_ok=True)
