"""Commits in the journal are applied to the state once, in order, and only to the state that they belong to."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from millstream.errors import StateError
from millstream.foundation.storage import close_environments
from millstream.state.redo import TaskCommit, pack_commits, redo, unpack_commits
from millstream.state.task import StateVersion, TaskState, store_database


def commit(number: int) -> TaskCommit:
    """Return the commit of a batch that adds a row and deletes the row of the previous batch."""
    version = msgspec.msgpack.encode(StateVersion(number, f"c{number}"))
    previous = f"c{number - 1}" if number > 1 else ""
    new, old = (store_database("s"), b"%d" % number, b"x"), (store_database("s"), b"%d" % (number - 1), None)
    return TaskCommit("n/0", previous, f"c{number}", [new, old, ("meta", b"version", version)])


def stored(directory: Path) -> tuple[int, list[bytes]]:
    state = TaskState(directory / "n" / "0", ("s",), sync=False)
    try:
        return state.read_version().batch, [key for key, _ in state.scan("s")]
    finally:
        close_environments(directory)


def test_only_missing_commits_are_applied(tmp_path: Path) -> None:
    redo(tmp_path, [commit(1), commit(2)], sync=False)
    assert stored(tmp_path) == (2, [b"2"])
    redo(tmp_path, [commit(1), commit(2), commit(3)], sync=False)
    assert stored(tmp_path) == (3, [b"3"])
    redo(tmp_path, unpack_commits(pack_commits([commit(2), commit(3)])), sync=False)
    assert stored(tmp_path) == (3, [b"3"])


def test_state_of_another_lineage_is_not_changed(tmp_path: Path) -> None:
    redo(tmp_path, [commit(1)], sync=False)
    with pytest.raises(StateError, match="is at batch 1, which is not in the journal"):
        redo(tmp_path, [commit(3)], sync=False)
    assert stored(tmp_path) == (1, [b"1"])
