"""The checkpoint: task state that can be restored on another host.

Each commit of a task uploads a delta, a file with everything that the commit wrote. From time to time a snapshot of the
whole environment is uploaded. The name of a file contains its commit, the commit it was built on and the checksum of
its content, so the file names alone define the chain from a snapshot to any later commit. The same code writes to local
paths, S3, HDFS and every other file system that pyarrow supports.

Two attempts of a task may run at the same time, such as one of a driver that was cut off and one of the driver that has
taken over. Where a file can be created once, a third kind of file decides between them: the choice of a batch names its
commit. The attempt that has lost discards what it did and continues with the commit of the other.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar
from zlib import crc32

import pyarrow as pa
from pyarrow import fs

from millstream.errors import DamagedError, StateError, StorageError
from millstream.foundation.file_systems import can_create_once, create_once, open_file_system, write_whole_file
from millstream.foundation.transactions import Transaction
from millstream.state.recording import Changes, Rows, pack_changes, unpack_changes, write_rows
from millstream.state.task import StateVersion, TaskState

_DELTA, _SNAPSHOT, _CHOICE = "delta", "snapshot", "choice"
_NONE = "0"
_COMMIT_BYTES = 16 << 20
"""Deltas that are restored in one commit: more of them change a page less often."""

OnRestore: TypeAlias = Callable[[int, int, float], None]
"""Called with the rows and bytes that were restored so far, and their part of all, from 0 to 1."""


T = TypeVar("T")


class OvertakenError(Exception):
    """Another attempt of the task has committed the batch."""


class CheckpointFile(NamedTuple):
    """A file in the checkpoint of a task, described by its name."""

    kind: str
    batch: int
    round: int
    commit: str
    previous: str
    """The commit that a delta was built on; empty for the first delta and for snapshots."""
    checksum: str = ""
    """CRC-32 of the content in hexadecimal; empty for a file of an earlier version."""

    @property
    def name(self) -> str:
        parts = f"{self.batch:012d}", str(self.round), self.commit, self.previous or _NONE, self.checksum, self.kind
        return ".".join(part for part in parts if part)

    @classmethod
    def parse(cls, name: str) -> CheckpointFile | None:
        parts = name.split(".")
        if len(parts) not in (5, 6) or parts[-1] not in (_DELTA, _SNAPSHOT):
            return None
        batch, round_, commit, previous, *checksum, kind = parts
        return cls(kind, int(batch), int(round_), commit, "" if previous == _NONE else previous, "".join(checksum))


class Choice(NamedTuple):
    """The file that names the commit of a batch, described by its name."""

    batch: int
    round: int
    previous: str
    """The commit that it was built on; empty for the first one."""

    @property
    def name(self) -> str:
        return f"{self.batch:012d}.{self.round}.{self.previous or _NONE}.{_CHOICE}"

    @classmethod
    def parse(cls, name: str) -> Choice | None:
        parts = name.split(".")
        if len(parts) != 4 or parts[-1] != _CHOICE:
            return None
        return cls(int(parts[0]), int(parts[1]), "" if parts[2] == _NONE else parts[2])


class Checkpoint:
    """The checkpoint of one lineage of an app."""

    def __init__(self, uri: str, app: str, lineage: str, *, snapshot_every: int = 100) -> None:
        self.file_system, root = open_file_system("checkpoint", uri)
        self.root = f"{root.rstrip('/')}/{app}/{lineage}"
        self.snapshot_every = snapshot_every

    def exists(self) -> bool:
        """Whether the lineage has files in the checkpoint."""
        return bool(self.file_system.get_file_info(self.root).type != fs.FileType.NotFound)

    def of_task(self, name: str) -> TaskCheckpoint:
        """Return the checkpoint of a task, such as ``words/3``."""
        return TaskCheckpoint(self, name)


class TaskCheckpoint:
    """The files of one task, listed when the object is created."""

    def __init__(self, checkpoint: Checkpoint, task: str) -> None:
        self._file_system = checkpoint.file_system
        self._task = task
        self._directory = f"{checkpoint.root}/{task}"
        self._snapshot_every = checkpoint.snapshot_every
        self._chooses = can_create_once(self._file_system)
        infos = self._file_system.get_file_info(fs.FileSelector(self._directory, allow_not_found=True))
        files = (CheckpointFile.parse(info.base_name) for info in infos)
        self.files = sorted((file for file in files if file is not None), key=lambda file: file[1:3])
        choices = (Choice.parse(info.base_name) for info in infos)
        self.choices = {choice for choice in choices if choice is not None}

    def restore(
        self, state: TaskState, expected: StateVersion, batch: int, on_progress: OnRestore = lambda *_: None
    ) -> float:
        """Bring local state to the commit that a batch expects, or to the batch itself if it was uploaded.

        Return the seconds that this took, 0 if local state is there already.
        """
        began = time.perf_counter()
        stored = state.read_version()
        is_local = stored.commit == expected.commit or (stored.batch == batch and stored.base == expected.commit)
        if is_local and not self.has(expected):  # the app had no checkpoint, or a command has changed its state
            self._upload_snapshot(state, stored)
            return 0.0
        target = self._target_commit(expected, batch)
        if stored.commit == target:
            return 0.0
        self._replace(state, target, on_progress)
        return time.perf_counter() - began

    def _replace(self, state: TaskState, target: str, on_progress: OnRestore) -> None:
        """Replace local state by a commit of the checkpoint."""
        snapshot, deltas = _chain_to(self.files, target, self._task)
        state.close()
        shutil.rmtree(state.path, ignore_errors=True)
        size = rows = 0
        if snapshot is not None:
            state.path.mkdir(parents=True, mode=0o700)
            data = self._read(snapshot)
            (state.path / "data.mdb").write_bytes(data)
            size = len(data)
        waiting: Rows = []
        waiting_bytes = 0
        for done, delta in enumerate(deltas, 1):
            data = self._read(delta)
            changes = unpack_changes(data)
            waiting += changes
            waiting_bytes += len(data)
            if waiting_bytes >= _COMMIT_BYTES or done == len(deltas):
                write_rows(state.path, waiting)
                waiting, waiting_bytes = [], 0
            size, rows = size + len(data), rows + len(changes)
            on_progress(rows, size, done / len(deltas))
        state.reopen()

    def has(self, version: StateVersion) -> bool:
        """Whether a commit was uploaded; a task without a commit needs no files."""
        return not version.commit or any(file.commit == version.commit for file in self.files)

    def _target_commit(self, expected: StateVersion, batch: int) -> str:
        """Return the commit to continue from: the newest of the batch itself if it was uploaded, else the expected one.

        A commit that was uploaded and not chosen is chosen now: its attempt has died, or is about to choose it.
        """
        commit = expected.commit
        while True:
            deltas = [
                file for file in self.files if file.kind == _DELTA and file.previous == commit and file.batch == batch
            ]
            if not deltas:
                return commit
            commit = self._choose(deltas[-1])

    def _choose(self, delta: CheckpointFile) -> str:
        """Return the commit of a batch, which is that of ``delta`` unless another one was chosen before."""
        if not self._chooses:
            return delta.commit
        choice = Choice(delta.batch, delta.round, delta.previous)
        path = f"{self._directory}/{choice.name}"
        try:
            if choice not in self.choices and create_once(self._file_system, path, delta.commit.encode()):
                self.choices.add(choice)
                return delta.commit
            with self._file_system.open_input_stream(path, compression=None) as stream:
                return bytes(stream.read()).decode()
        except (OSError, pa.ArrowException) as error:
            raise _cannot_write(path, error) from error

    def load_snapshot(self, state: TaskState) -> None:
        """Replace local state by the newest snapshot, if there is one."""
        snapshots = [file for file in self.files if file.kind == _SNAPSHOT]
        if not snapshots:
            return
        data = self._read(snapshots[-1])
        state.close()
        shutil.rmtree(state.path, ignore_errors=True)
        state.path.mkdir(parents=True, mode=0o700)
        (state.path / "data.mdb").write_bytes(data)
        state.reopen()

    def upload_snapshot(self, state: TaskState) -> None:
        """Upload a snapshot, and delete all but the one before."""
        snapshots = [file for file in self.files if file.kind == _SNAPSHOT]
        self._upload_snapshot(state, state.read_version())
        for file in snapshots[:-1]:
            self._file_system.delete_file(f"{self._directory}/{file.name}")

    def upload(self, version: StateVersion, previous: str, changes: Changes) -> None:
        """Upload the changes of a commit, which is committed locally after that, and published last.

        Raises an ``OvertakenError`` if another attempt has committed the same batch.
        """
        delta = self._write(
            CheckpointFile(_DELTA, version.batch, version.round, version.commit, previous), pack_changes(changes)
        )
        if self._choose(delta) != version.commit:
            raise OvertakenError

    def snapshot_if_due(self, state: TaskState) -> None:
        """Upload a snapshot every ``snapshot_every`` batches, and delete the files before the previous snapshot."""
        version = state.read_version()
        snapshots = [file for file in self.files if file.kind == _SNAPSHOT]
        first = self.files[0].batch if self.files else version.batch
        if version.batch - (snapshots[-1].batch if snapshots else first) < self._snapshot_every:
            return
        self._upload_snapshot(state, version)
        old = snapshots[-1].batch if snapshots else 0
        names = [file.name for file in self.files if file.batch < old]
        for name in (*names, *(choice.name for choice in self.choices if choice.batch < old)):
            self._file_system.delete_file(f"{self._directory}/{name}")

    def _upload_snapshot(self, state: TaskState, version: StateVersion) -> None:
        with tempfile.TemporaryDirectory() as directory:
            state.copy_to(Path(directory))
            data = (Path(directory) / "data.mdb").read_bytes()
        self._write(CheckpointFile(_SNAPSHOT, version.batch, version.round, version.commit, ""), data)

    def _write(self, file: CheckpointFile, data: bytes) -> CheckpointFile:
        """Write a file and return it with its checksum."""
        file = file._replace(checksum=f"{crc32(data):08x}")
        target = f"{self._directory}/{file.name}"
        try:
            write_whole_file(self._file_system, target, data)
        except (OSError, pa.ArrowException) as error:
            raise _cannot_write(target, error) from error
        return file

    def _read(self, file: CheckpointFile) -> bytes:
        path = f"{self._directory}/{file.name}"
        try:
            with self._file_system.open_input_stream(path, compression=None) as stream:
                data = bytes(stream.read())
        except (OSError, pa.ArrowException) as error:
            raise StorageError(
                f"cannot read the checkpoint {path!r}: {error}", hint="check checkpoint= and its permissions"
            ) from error
        if file.checksum and f"{crc32(data):08x}" != file.checksum:
            raise DamagedError(
                f"{path!r} is damaged: it does not match its checksum",
                hint="restore the checkpoint from a backup, or reset the app",
                path=path,
            )
        return data

    def check(self, expected: StateVersion) -> None:
        """Check that a commit can be restored, and the checksums of all files that this needs."""
        snapshot, deltas = _chain_to(self.files, expected.commit, self._task)
        for file in [*deltas, *([] if snapshot is None else [snapshot])]:
            self._read(file)


def commit_uploaded(
    checkpoint: Checkpoint,
    task: str,
    state: TaskState,
    expected: StateVersion,
    batch: int,
    apply: Callable[[Any], T],
    on_restore: OnRestore = lambda *_: None,
) -> tuple[T, float]:
    """Restore what a state lacks, and commit what ``apply`` writes: to the checkpoint first, then to the state.

    So a state is never ahead of the checkpoint, and what was not uploaded never takes effect. If another attempt was
    faster, ``apply`` is called again with the state that it has left. Return the result and the seconds of the restore.
    """
    while True:
        files = checkpoint.of_task(task)
        seconds = files.restore(state, expected, batch, on_restore)
        try:
            result = state.update(_uploading(files, state, apply))
        except OvertakenError:
            continue
        files.snapshot_if_due(state)
        return result, seconds


def _uploading(files: TaskCheckpoint, state: TaskState, apply: Callable[[Any], T]) -> Callable[[Any], T]:
    is_uploaded = False

    def change(txn: Transaction) -> T:
        nonlocal is_uploaded
        if is_uploaded:  # the local commit failed, since the map was full
            raise OvertakenError
        before = state.version(txn).commit
        recorded = state.recorded(txn)
        result = apply(recorded)
        if recorded.changes:
            files.upload(state.version(recorded), before, recorded.changes)
            is_uploaded = True
        return result

    return change


def _cannot_write(path: str, error: Exception) -> StorageError:
    return StorageError(f"cannot write the checkpoint {path!r}: {error}", hint="check checkpoint= and its permissions")


def _chain_to(
    files: list[CheckpointFile], target: str, task: str
) -> tuple[CheckpointFile | None, list[CheckpointFile]]:
    """Return a snapshot, None if the chain starts from empty state, and the deltas from there to a commit."""
    deltas = {file.commit: file for file in files if file.kind == _DELTA}
    snapshots = {file.commit: file for file in files if file.kind == _SNAPSHOT}
    chain: list[CheckpointFile] = []
    commit = target
    while commit and commit not in snapshots:
        if commit not in deltas:
            raise StateError(
                f"the checkpoint cannot restore commit {target[:8]} of task {task}: files are missing",
                hint="files of the checkpoint were moved or deleted; put them back, or reset the app",
            )
        chain.append(deltas[commit])
        commit = deltas[commit].previous
    return snapshots.get(commit), chain[::-1]
