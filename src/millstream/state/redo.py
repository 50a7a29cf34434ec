"""Task commits that are stored in the journal first and applied to the environment of each task later.

A commit names the commit it was built on, so the state itself shows which commits it contains.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from millstream.errors import StateError
from millstream.state.recording import Rows, write_rows
from millstream.state.task import TaskState


class TaskCommit(msgspec.Struct, frozen=True, array_like=True):
    """The changes that a batch, or one round of it, made to the state of a task, such as ``words/3``."""

    task: str
    previous: str
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
    """Bring the state of tasks to their last commit; this is idempotent."""
    by_task: dict[str, list[TaskCommit]] = {}
    for commit in commits:
        by_task.setdefault(commit.task, []).append(commit)
    for task, task_commits in by_task.items():
        path = state_dir / task
        missing = task_commits[_count_applied(path, task_commits, sync=sync) :]
        rows = [row for commit in missing for row in commit.rows]
        if rows:
            write_rows(path, rows, sync=sync)


def _count_applied(path: Path, commits: list[TaskCommit], *, sync: bool) -> int:
    """Return how many of a task's commits its state already contains."""
    stored = TaskState(path, (), sync=sync).read_version()
    chain = [commits[0].previous, *(commit.commit for commit in commits)]
    if stored.commit not in chain:
        raise StateError(
            f"state in {str(path)!r} is at batch {stored.batch}, which is not in the journal",
            hint="it was copied, restored or deleted by hand; put it back, or reset the app",
            stored=stored.batch,
        )
    return chain.index(stored.commit)
