"""Failpoints: named points at which a process kills or stops itself; they are patched in, not part of the product.

``MILLSTREAM_CRASH_POINT=NAME:N`` is the N-th time that a process reaches failpoint NAME. A file marks that it was hit,
so that it is hit only once, in whichever process.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from millstream.batch.journal import Journal
from millstream.batch.loop import BatchLoop
from millstream.log import EmbeddedLog
from millstream.state.task import TaskState

POINTS = ("after plan", "after state commit", "between two outputs", "before done", "after done")
COMMITTING_STATES = "between two state commits"
"""Reached only if state is written behind: some states are committed, others are in the journal only."""
DRAIN = "during drain"
"""Reached with Spark only: a light victim is between two runs when it is stopped."""

_left: dict[str, int] = {}


def install() -> None:
    """Patch this process so that it dies at the failpoint that the environment names, if any."""
    name, _, count = os.environ.get("MILLSTREAM_CRASH_POINT", "").rpartition(":")
    if name and not _left:
        _left[name] = int(count)
        _wrap(Journal, "write", _around_write)
        _wrap(Journal, "write_with_commits", _around_write_with_commits)
        _wrap(EmbeddedLog, "append_once", _around_append)
        _wrap(EmbeddedLog, "append_together", _around_append_together)
        _wrap(TaskState, "writing", _around_writing)
        _wrap(BatchLoop, "_commit", _around_commit)


def _hit(name: str) -> None:
    """Die here if this failpoint is due."""
    if name not in _left:
        return
    _left[name] -= 1
    if _left[name] == 0:
        mark = Path(os.environ["MILLSTREAM_CRASH_MARK"])
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), getattr(signal, os.environ.get("MILLSTREAM_CRASH_SIGNAL", "SIGKILL")))


def _wrap(owner: type, name: str, around: Callable[..., Any]) -> None:
    setattr(owner, name, functools.partialmethod(around, getattr(owner, name)))


def _around_write(self: Journal, write: Callable[..., None], progress: Any, planned: Any, report: Any = None) -> None:
    if report is not None:
        _hit("before done")
    write(self, progress, planned, report)
    if planned is not None:
        _hit("after plan")
    if report is not None:
        _hit("after done")


def _around_write_with_commits(
    self: Journal, write: Callable[..., None], progress: Any, planned: Any, report: Any, commits: Any, *, committed: int
) -> None:
    if report is not None:
        _hit("before done")
    write(self, progress, planned, report, commits, committed=committed)
    _hit("after plan")
    if report is not None:
        _hit("after done")


@contextlib.contextmanager
def _around_writing(self: TaskState, writing: Callable[..., Any]) -> Iterator[Any]:
    with writing(self) as txn:
        yield txn
    _hit(COMMITTING_STATES)


def _around_append_together(
    self: EmbeddedLog, append: Callable[..., None], sequence: int, outputs: dict[str, list[Any]]
) -> None:
    _hit("after state commit")
    if "between two outputs" in _left and sum(map(len, outputs.values())) > 1:
        producer, own = next(iter(outputs.items()))
        append(self, sequence, {producer: own[:1]})
        _hit("between two outputs")
    append(self, sequence, outputs)


def _around_append(
    self: EmbeddedLog, append: Callable[..., None], producer: str, sequence: int, outputs: Any, **settings: Any
) -> None:
    _hit("after state commit")
    if "between two outputs" in _left and len(outputs) > 1:
        append(self, producer, sequence, outputs[:1], **settings)
        _hit("between two outputs")
    append(self, producer, sequence, outputs, **settings)


def _around_commit(self: BatchLoop, commit: Callable[..., None], progress: Any) -> None:
    if self._stopping.is_set():
        _hit(DRAIN)
    commit(self, progress)
