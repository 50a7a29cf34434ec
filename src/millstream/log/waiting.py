"""Wake-ups between processes: a waiter is a named pipe in a directory, and a writer writes a byte to each pipe.

A waiter creates its pipe before it checks the log; a writer commits before it lists the pipes. So no wake-up is lost.
A pipe without a reader belongs to a process that has died and is removed. A new pipe therefore has a temporary name
until its reader has opened it.
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

_PENDING_PREFIX = "."
_PENDING_SECONDS = 60.0
_PIPE_BYTES = 65_536  # the capacity of a pipe


def notify(directory: Path) -> None:
    """Wake all waiters in ``directory``."""
    try:
        names = os.listdir(directory)  # noqa: PTH208 - a third of the cost of iterdir, on every append
    except FileNotFoundError:
        return
    for name in names:
        if not name.startswith(_PENDING_PREFIX):
            _wake(directory / name)


def _wake(pipe: Path) -> None:
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
    except (BlockingIOError, BrokenPipeError):
        pass  # the pipe is full of wake-ups, or its reader has died since it was opened
    finally:
        os.close(end)


class LogWaiter:
    """Waits for notifications in any number of directories; used by one thread for many waits."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._pipes: dict[Path, _Pipe] = {}
        self._process = os.getpid()

    def wait(self, directories: Iterable[Path], is_ready: Callable[[], bool], timeout: float) -> bool:
        """Block until ``is_ready`` returns True; call it again whenever one of the directories is notified."""
        self._watch(set(directories))
        deadline = monotonic() + timeout
        while True:
            self._drain()
            if is_ready():
                return True
            remaining = deadline - monotonic()
            if remaining <= 0:
                return False
            self._poll.poll(remaining * 1000)

    def _watch(self, directories: set[Path]) -> None:
        for obsolete in self._pipes.keys() - directories:
            pipe = self._pipes.pop(obsolete)
            self._poll.unregister(pipe.read_end)
            pipe.close()
        for directory in directories:
            if directory not in self._pipes:
                self._pipes[directory] = pipe = _Pipe(directory)
                self._poll.register(pipe.read_end, select.POLLIN)

    def _drain(self) -> None:
        for pipe in self._pipes.values():
            pipe.drain()

    @property
    def belongs_to_this_process(self) -> bool:
        """Whether this process created it, rather than inherited it by ``fork``."""
        return self._process == os.getpid()

    def close(self) -> None:
        """Remove all pipes."""
        self._watch(set())


class _Pipe:
    """A named pipe with both ends open, so that it neither reaches its end nor blocks writers."""

    def __init__(self, directory: Path) -> None:
        name = uuid4().hex
        path, pending = directory / name, directory / f"{_PENDING_PREFIX}{name}"
        ends: list[int] = []
        with translate_storage_errors(directory):
            make_private_directory(directory)
            _remove_abandoned(directory)
            try:
                os.mkfifo(pending, 0o600)
                ends.append(os.open(pending, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
                ends.append(os.open(pending, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
                with suppress(FileNotFoundError):  # the topic has just been deleted; the reader checks that itself
                    os.rename(pending, path)  # noqa: PTH104 - consistent with the calls above
            except BaseException:
                for end in ends:
                    os.close(end)
                pending.unlink(missing_ok=True)
                raise
        self.read_end, write_end = ends
        self.close = weakref.finalize(self, _close_pipe, path, self.read_end, write_end, os.getpid())

    def drain(self) -> None:
        with suppress(BlockingIOError):
            os.read(self.read_end, _PIPE_BYTES)


def _remove_abandoned(directory: Path) -> None:
    """Remove the pipes of processes that died before they could rename them."""
    for pipe in directory.glob(f"{_PENDING_PREFIX}*"):
        with suppress(FileNotFoundError):
            if time() - pipe.stat().st_mtime > _PENDING_SECONDS:
                pipe.unlink()


def _close_pipe(path: Path, read_end: int, write_end: int, process: int) -> None:
    os.close(read_end)
    os.close(write_end)
    if process == os.getpid():
        path.unlink(missing_ok=True)
