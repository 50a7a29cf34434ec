"""The checkpoint: state that can be restored on another host.

Each commit of a task leaves a delta, a file with all that it wrote, and every so often a snapshot of the whole
environment. A file is named by its commit and by the one it was built on, so the files themselves tell how to get from
a snapshot to any commit after it. Local paths, S3, HDFS and what else pyarrow knows are written by the same code.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import fs

from millstream.errors import DefinitionError, StateError, StorageError
from millstream.state.recording import Changes, pack_changes, unpack_changes, write_rows
from millstream.state.task import StateVersion, TaskState

_DELTA, _SNAPSHOT = "delta", "snapshot"
_NONE = "0"
_WHOLE_WHEN_CLOSED = ("s3", "gcs", "abfs")
"""File systems on which an object appears when it is complete; elsewhere a file is written beside and then moved."""


class Entry(NamedTuple):
    """A file of a task's checkpoint, as its name tells it."""

    kind: str
    batch: int
    round: int
    commit: str
    before: str
    """The commit that a delta was built on; empty for the first one, and for snapshots."""

    @property
    def name(self) -> str:
        return f"{self.batch:012d}.{self.round}.{self.commit}.{self.before or _NONE}.{self.kind}"

    @classmethod
    def of(cls, name: str) -> Entry | None:
        parts = name.split(".")
        if len(parts) != 5 or parts[4] not in (_DELTA, _SNAPSHOT):
            return None
        batch, round_, commit, before, kind = parts
        return cls(kind, int(batch), int(round_), commit, "" if before == _NONE else before)


class Checkpoint:
    """The checkpoint of one history of an app."""

    def __init__(self, uri: str, app: str, lineage: str, *, snapshot_every: int = 100) -> None:
        self.files, root = _file_system(uri)
        self.root = f"{root.rstrip('/')}/{app}/{lineage}"
        self.snapshot_every = snapshot_every

    def of_task(self, name: str) -> TaskCheckpoint:
        """Return what there is of a task, such as ``words/3``."""
        return TaskCheckpoint(self, name)


class TaskCheckpoint:
    """The files of one task, as they were when it was made."""

    def __init__(self, checkpoint: Checkpoint, task: str) -> None:
        self._files = checkpoint.files
        self._task = task
        self._directory = f"{checkpoint.root}/{task}"
        self._snapshot_every = checkpoint.snapshot_every
        found = self._files.get_file_info(fs.FileSelector(self._directory, allow_not_found=True))
        entries = (Entry.of(one.base_name) for one in found)
        self.entries = sorted((one for one in entries if one is not None), key=lambda one: one[1:3])

    def ensure(self, state: TaskState, expected: StateVersion, batch: int) -> float:
        """Bring local state to what a batch expects, or to the batch itself if it was shipped; return the seconds."""
        began = time.perf_counter()
        found = state.read_version()
        goal = _goal(self.entries, expected, batch)
        if found.commit == goal or (found.batch == batch and expected.commit in (found.after, found.commit)):
            return 0.0
        snapshot, deltas = _path_to(self.entries, goal, self._task)
        state.close()
        shutil.rmtree(state.path, ignore_errors=True)
        if snapshot is not None:
            state.path.mkdir(parents=True, mode=0o700)
            (state.path / "data.mdb").write_bytes(self._read(snapshot))
        for delta in deltas:
            write_rows(state.path, unpack_changes(self._read(delta)))
        state.reopen()
        return time.perf_counter() - began

    def ship(self, state: TaskState, before: str, changes: Changes) -> None:
        """Store what the last commit wrote; only after that may others see anything of it."""
        version = state.read_version()
        if version.commit == before:  # served again: if it was not shipped then, its delta is not known any more
            if all(one.commit != version.commit for one in self.entries):
                self._snapshot(state, version)
            return
        self._write(Entry(_DELTA, version.batch, version.round, version.commit, before), pack_changes(changes))

    def snapshot_if_due(self, state: TaskState) -> None:
        """Store a snapshot every so many batches, and let go of what is before the one before it."""
        version = state.read_version()
        known = [one for one in self.entries if one.kind == _SNAPSHOT]
        first = self.entries[0].batch if self.entries else version.batch
        if version.batch - (known[-1].batch if known else first) < self._snapshot_every:
            return
        self._snapshot(state, version)
        for old in self.entries:
            if known and old.batch < known[-1].batch:
                self._files.delete_file(f"{self._directory}/{old.name}")

    def _snapshot(self, state: TaskState, version: StateVersion) -> None:
        with tempfile.TemporaryDirectory() as directory:
            state.copy_to(Path(directory))
            data = (Path(directory) / "data.mdb").read_bytes()
        self._write(Entry(_SNAPSHOT, version.batch, version.round, version.commit, ""), data)

    def _write(self, entry: Entry, data: bytes) -> None:
        target = f"{self._directory}/{entry.name}"
        beside = target if self._files.type_name in _WHOLE_WHEN_CLOSED else f"{self._directory}/.{entry.name}"
        try:
            self._files.create_dir(self._directory, recursive=True)
            with self._files.open_output_stream(beside, compression=None) as stream:
                stream.write(data)
            if self._files.type_name == "local":
                _force(beside)
            if beside != target:
                self._files.move(beside, target)
        except (OSError, pa.ArrowException) as error:
            raise StorageError(
                f"cannot write the checkpoint {target!r}: {error}", hint="check checkpoint= and the rights on it"
            ) from error

    def _read(self, entry: Entry) -> bytes:
        with self._files.open_input_stream(f"{self._directory}/{entry.name}", compression=None) as stream:
            return bytes(stream.read())


def _file_system(uri: str) -> tuple[Any, str]:
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(uri if "://" in uri else str(Path(uri).absolute()))
    except (pa.ArrowException, ValueError, OSError) as error:
        raise DefinitionError(
            f"checkpoint={uri!r} cannot be used: {error}", hint="use a path, or a URI such as s3://bucket/folder"
        ) from error
    return found


def _force(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _goal(entries: list[Entry], expected: StateVersion, batch: int) -> str:
    """Return the commit to go on from: the newest of the batch itself if it was shipped, or the expected one."""
    at = expected.commit
    while True:
        following = [one for one in entries if one.kind == _DELTA and one.before == at and one.batch == batch]
        if not following:
            return at
        at = following[-1].commit


def _path_to(entries: list[Entry], goal: str, place: str) -> tuple[Entry | None, list[Entry]]:
    """Return a snapshot, or None for the beginning, and the deltas that lead from it to a commit."""
    deltas = {one.commit: one for one in entries if one.kind == _DELTA}
    snapshots = {one.commit: one for one in entries if one.kind == _SNAPSHOT}
    path: list[Entry] = []
    at = goal
    while at and at not in snapshots:
        if at not in deltas:
            raise StateError(
                f"the checkpoint has no way to commit {goal[:8]} of task {place}",
                hint="it was moved or deleted in part; put it back, or reset the app",
            )
        path.append(deltas[at])
        at = deltas[at].before
    return snapshots.get(at), path[::-1]
