"""Commits of tasks that are written down together first, and reach each task's own environment later.

A commit names the one that it was built on, so that the state itself tells which of them it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from millstream.errors import StateError
from millstream.state.recording import Rows, write_rows
from millstream.state.task import TaskState


class TaskCommit(msgspec.Struct, frozen=True, array_like=True):
    """What a batch, or one round of it, has changed in the state of a task, such as ``words/3``."""

    task: str
    before: str
    commit: str
    rows: Rows


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[TaskCommit]).decode


def pack_commits(commits: list[TaskCommit]) -> bytes:
    """Return the commits of a batch as bytes."""
    return _encode(commits)


def unpack_commits(data: bytes) -> list[TaskCommit]:
    """Return what ``pack_commits`` packed."""
    return _decode(data)


def redo(state_dir: Path, commits: Iterable[TaskCommit], *, sync: bool = True) -> None:
    """Bring the state of tasks up to their last commit; doing it twice is the same as once."""
    by_task: dict[str, list[TaskCommit]] = {}
    for one in commits:
        by_task.setdefault(one.task, []).append(one)
    for task, own in by_task.items():
        path = state_dir / task
        rows = [row for one in own[_known(path, own, sync=sync) :] for row in one.rows]
        if rows:
            write_rows(path, rows, sync=sync)


def _known(path: Path, commits: list[TaskCommit], *, sync: bool) -> int:
    """Return how many of a task's commits its state has already."""
    found = TaskState(path, (), sync=sync).read_version()
    chain = [commits[0].before, *(one.commit for one in commits)]
    if found.commit not in chain:
        raise StateError(
            f"state in {str(path)!r} is at batch {found.batch}, which the journal does not know",
            hint="it was copied, restored or deleted by hand; put it back, or reset the app",
            found=found.batch,
        )
    return chain.index(found.commit)
