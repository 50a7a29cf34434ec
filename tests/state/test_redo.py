"""Commits that were written down elsewhere reach the state once, in order, and only the state that they are for."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from millstream.errors import StateError
from millstream.foundation.storage import close_environments
from millstream.state.redo import TaskCommit, pack_commits, redo, unpack_commits
from millstream.state.task import StateVersion, TaskState, store_database


def rows(number: int) -> TaskCommit:
    """The commit of a batch that sets a row of its own, and deletes that of the batch before."""
    version = msgspec.msgpack.encode(StateVersion(number, f"c{number}"))
    before = f"c{number - 1}" if number > 1 else ""
    own, old = (store_database("s"), b"%d" % number, b"x"), (store_database("s"), b"%d" % (number - 1), None)
    return TaskCommit("n/0", before, f"c{number}", [own, old, ("meta", b"version", version)])


def seen(directory: Path) -> tuple[int, list[bytes]]:
    state = TaskState(directory / "n" / "0", ("s",), sync=False)
    try:
        return state.read_version().batch, [key for key, _ in state.scan("s")]
    finally:
        close_environments(directory)


def test_only_what_is_missing_is_done(tmp_path: Path) -> None:
    redo(tmp_path, [rows(1), rows(2)], sync=False)
    assert seen(tmp_path) == (2, [b"2"])
    redo(tmp_path, [rows(1), rows(2), rows(3)], sync=False)
    assert seen(tmp_path) == (3, [b"3"])
    redo(tmp_path, unpack_commits(pack_commits([rows(2), rows(3)])), sync=False)
    assert seen(tmp_path) == (3, [b"3"])


def test_state_of_another_history_is_left_alone(tmp_path: Path) -> None:
    redo(tmp_path, [rows(1)], sync=False)
    with pytest.raises(StateError, match="is at batch 1, which the journal does not know"):
        redo(tmp_path, [rows(3)], sync=False)
    assert seen(tmp_path) == (1, [b"1"])
