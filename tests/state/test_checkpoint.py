"""State is uploaded and restored: with deltas, snapshots, lost hosts and commits that were never uploaded."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.errors import DefinitionError, StateError, StorageError
from millstream.foundation.storage import close_environments
from millstream.state.checkpoint import Checkpoint, CheckpointFile, TaskCheckpoint, commit_uploaded
from millstream.state.task import StateVersion, TaskState

STORE = "rows"
Rows = dict[bytes, bytes]


class Host:
    """A host with its own state directory."""

    def __init__(self, directory: Path, checkpoint: Checkpoint) -> None:
        self.state = TaskState(directory, (STORE,), sync=False)
        self._checkpoint = checkpoint
        self.before_upload: Callable[[], object] | None = None

    @property
    def checkpoint(self) -> TaskCheckpoint:
        return self._checkpoint.of_task("words/0")

    def run(
        self, batch: int, expected: StateVersion, rows: Rows, deleted: list[bytes], *, upload: bool = True
    ) -> StateVersion:
        """Run a batch as a task does; return the version after it."""

        def apply(recorded: Any) -> None:
            stored = self.state.version(recorded)
            if not self.state.has_applied(stored, batch, 0, expected):
                store = self.state.database(STORE)
                with recorded.cursor(store) as cursor:
                    cursor.putmulti(list(rows.items()))
                for key in deleted:
                    recorded.delete(key, db=store)
                commit = f"{random.getrandbits(64):016x}"
                self.state.save(recorded, StateVersion(batch, commit, base=stored.commit), b"outbox")
            if self.before_upload is not None:
                self.before_upload()

        if upload:
            commit_uploaded(self._checkpoint, "words/0", self.state, expected, batch, apply)
        else:
            self.state.update(lambda txn: apply(self.state.recorded(txn)))
        return self.state.read_version()

    def rows(self) -> Rows:
        return dict(self.state.scan(STORE))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Checkpoint]:
    yield Checkpoint(str(tmp_path / "checkpoint"), "app", "history", snapshot_every=4)
    close_environments(tmp_path)


def test_another_host_continues_from_the_uploaded_state(checkpoint: Checkpoint, tmp_path: Path) -> None:
    first, second = Host(tmp_path / "a", checkpoint), Host(tmp_path / "b", checkpoint)
    version = StateVersion()
    for batch in range(1, 12):
        version = first.run(batch, version, {b"k%d" % (batch % 3): b"%d" % batch}, [b"k0"] if batch % 5 == 0 else [])
    assert {file.kind for file in first.checkpoint.files} == {"delta", "snapshot"}
    assert first.checkpoint.files[0].batch > 1, "files before the second-to-last snapshot are deleted"
    second.run(12, version, {b"new": b"1"}, [])
    assert second.rows() == {**first.rows(), b"new": b"1"}


def test_an_uploaded_batch_is_not_applied_again(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """The host died after it had uploaded its commit, and may have published some of its output."""
    first, second = Host(tmp_path / "a", checkpoint), Host(tmp_path / "b", checkpoint)
    uploaded = first.run(1, StateVersion(), {b"k": b"first run"}, [])
    assert second.run(1, StateVersion(), {b"k": b"second run"}, []) == uploaded
    assert second.rows() == {b"k": b"first run"}


def test_a_commit_that_was_never_uploaded_is_discarded(checkpoint: Checkpoint, tmp_path: Path) -> None:
    first, second = Host(tmp_path / "a", checkpoint), Host(tmp_path / "b", checkpoint)
    done = first.run(1, StateVersion(), {b"k": b"1"}, [])
    first.run(2, done, {b"k": b"lost"}, [], upload=False)
    third = second.run(2, done, {b"k": b"2"}, [])
    assert first.run(3, third, {b"m": b"3"}, []).batch == 3
    assert first.rows() == {b"k": b"2", b"m": b"3"}


def test_a_commit_whose_upload_failed_is_applied_again(checkpoint: Checkpoint, tmp_path: Path) -> None:
    first, second = Host(tmp_path / "a", checkpoint), Host(tmp_path / "b", checkpoint)
    done = first.run(1, StateVersion(), {b"k": b"1"}, [])
    first.run(2, done, {b"k": b"without effect"}, [], upload=False)
    again = first.run(2, done, {b"k": b"2"}, [])
    second.run(3, again, {b"m": b"3"}, [])
    assert second.rows() == {b"k": b"2", b"m": b"3"}


def test_of_two_attempts_at_the_same_time_the_first_upload_counts(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """A driver that was cut off and the one that has taken over run the same batch, with different results."""
    first, second = Host(tmp_path / "a", checkpoint), Host(tmp_path / "b", checkpoint)
    done = first.run(1, StateVersion(), {b"k": b"1"}, [])
    winners: list[StateVersion] = []

    def run_elsewhere() -> None:
        if not winners:
            winners.append(second.run(2, done, {b"k": b"of the second"}, []))

    first.before_upload = run_elsewhere
    assert first.run(2, done, {b"k": b"of the first"}, []) == winners[0]
    assert first.rows() == second.rows() == {b"k": b"of the second"}
    first.before_upload = None
    assert first.run(3, winners[0], {b"m": b"3"}, []).batch == 3


def test_an_upload_that_was_not_chosen_before_its_host_died_is_continued(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Host(tmp_path / "a", checkpoint), Host(tmp_path / "b", checkpoint)

    def die(*_: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(TaskCheckpoint, "_choose", die)
        with pytest.raises(KeyboardInterrupt):
            first.run(1, StateVersion(), {b"k": b"of the first"}, [])
    version = second.run(1, StateVersion(), {b"k": b"of the second"}, [])
    assert second.rows() == {b"k": b"of the first"}
    assert first.run(1, StateVersion(), {b"k": b"of the first, again"}, []) == version


def test_state_of_an_app_that_had_no_checkpoint_is_uploaded(checkpoint: Checkpoint, tmp_path: Path) -> None:
    first, second = Host(tmp_path / "a", checkpoint), Host(tmp_path / "b", checkpoint)
    local = first.run(1, StateVersion(), {b"k": b"1"}, [], upload=False)
    version = first.run(2, local, {b"m": b"2"}, [])
    second.run(3, version, {}, [])
    assert second.rows() == {b"k": b"1", b"m": b"2"}


def test_a_checkpoint_with_missing_files_is_rejected(checkpoint: Checkpoint, tmp_path: Path) -> None:
    host = Host(tmp_path / "a", checkpoint)
    version = host.run(2, host.run(1, StateVersion(), {b"k": b"1"}, []), {b"k": b"2"}, [])
    for file in (tmp_path / "checkpoint").rglob("000000000001.*"):
        file.unlink()
    with pytest.raises(
        StateError, match=r"the checkpoint cannot restore commit \w+ of task words/0: files are missing"
    ):
        Host(tmp_path / "b", checkpoint).run(3, version, {}, [])


def test_an_unusable_checkpoint_location_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="checkpoint='nowhere://x' cannot be used"):
        Checkpoint("nowhere://x", "app", "history")
    (tmp_path / "file").write_text("I am a file")
    host = Host(tmp_path / "a", Checkpoint(str(tmp_path / "file"), "app", "history"))
    with pytest.raises((StorageError, OSError)):
        host.run(1, StateVersion(), {b"k": b"1"}, [])


KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
BATCH = st.tuples(st.integers(0, 2), st.dictionaries(KEYS, st.binary(max_size=3)), st.lists(KEYS, max_size=2))


@given(st.lists(BATCH, max_size=10))
@settings(max_examples=25, deadline=None)
def test_the_rows_are_the_same_whichever_host_runs_a_batch(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[int, Rows, list[bytes]]]
) -> None:
    directory = tmp_path_factory.mktemp("hosts")
    checkpoint = Checkpoint(str(directory / "checkpoint"), "app", "history", snapshot_every=3)
    hosts = [Host(directory / str(number), checkpoint) for number in range(3)]
    version = StateVersion()
    expected: Rows = {}
    last = hosts[0]
    for number, (host, rows, deleted) in enumerate(batches, 1):
        last = hosts[host]
        version = last.run(number, version, rows, deleted)
        expected = {key: value for key, value in {**expected, **rows}.items() if key not in deleted}
    assert last.rows() == expected
    close_environments(directory)


def test_a_local_checkpoint_can_only_be_read_by_its_owner(checkpoint: Checkpoint, tmp_path: Path) -> None:
    checkpoint.of_task("words/0")._write(CheckpointFile("delta", 1, 0, "c1", ""), b"data")
    files = [path for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert {path.parent.stat().st_mode & 0o777 for path in files} == {0o700}
