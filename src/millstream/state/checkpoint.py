"""The checkpoint: task state that can be restored on another host.

Each commit of a task uploads a delta, a file with everything that the commit wrote. From time to time a snapshot of the
whole environment is uploaded. The name of a file contains its commit, the commit it was built on and the checksum of
its content, so the file names alone define the chain from a snapshot to any later commit. The same code writes to local
paths, S3, HDFS and every other file system that pyarrow supports.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import pyarrow as pa
from pyarrow import fs

from millstream.errors import DamagedError, StateError, StorageError
from millstream.foundation.file_systems import open_file_system, write_whole_file
from millstream.state.recording import Changes, pack_changes, unpack_changes, write_rows
from millstream.state.task import StateVersion, TaskState

_DELTA, _SNAPSHOT = "delta", "snapshot"
_NONE = "0"


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
        infos = self._file_system.get_file_info(fs.FileSelector(self._directory, allow_not_found=True))
        files = (CheckpointFile.parse(info.base_name) for info in infos)
        self.files = sorted((file for file in files if file is not None), key=lambda file: file[1:3])

    def restore(self, state: TaskState, expected: StateVersion, batch: int) -> float:
        """Bring local state to the commit that a batch expects, or to the batch itself if it was uploaded.

        Return the seconds that this took, 0 if local state is there already.
        """
        began = time.perf_counter()
        stored = state.read_version()
        target = _target_commit(self.files, expected, batch)
        if stored.commit == target or (stored.batch == batch and expected.commit in (stored.base, stored.commit)):
            return 0.0
        snapshot, deltas = _chain_to(self.files, target, self._task)
        state.close()
        shutil.rmtree(state.path, ignore_errors=True)
        if snapshot is not None:
            state.path.mkdir(parents=True, mode=0o700)
            (state.path / "data.mdb").write_bytes(self._read(snapshot))
        for delta in deltas:
            write_rows(state.path, unpack_changes(self._read(delta)))
        state.reopen()
        return time.perf_counter() - began

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

    def upload(self, state: TaskState, previous: str, changes: Changes) -> None:
        """Upload the changes of the last commit; its output may be published only after that."""
        version = state.read_version()
        if version.commit == previous:  # applied earlier: if it was not uploaded then, its delta is lost
            if all(file.commit != version.commit for file in self.files):
                self._upload_snapshot(state, version)
            return
        delta = CheckpointFile(_DELTA, version.batch, version.round, version.commit, previous)
        self._write(delta, pack_changes(changes))

    def snapshot_if_due(self, state: TaskState) -> None:
        """Upload a snapshot every ``snapshot_every`` batches, and delete the files before the previous snapshot."""
        version = state.read_version()
        snapshots = [file for file in self.files if file.kind == _SNAPSHOT]
        first = self.files[0].batch if self.files else version.batch
        if version.batch - (snapshots[-1].batch if snapshots else first) < self._snapshot_every:
            return
        self._upload_snapshot(state, version)
        for file in self.files:
            if snapshots and file.batch < snapshots[-1].batch:
                self._file_system.delete_file(f"{self._directory}/{file.name}")

    def _upload_snapshot(self, state: TaskState, version: StateVersion) -> None:
        with tempfile.TemporaryDirectory() as directory:
            state.copy_to(Path(directory))
            data = (Path(directory) / "data.mdb").read_bytes()
        self._write(CheckpointFile(_SNAPSHOT, version.batch, version.round, version.commit, ""), data)

    def _write(self, file: CheckpointFile, data: bytes) -> None:
        file = file._replace(checksum=f"{crc32(data):08x}")
        target = f"{self._directory}/{file.name}"
        try:
            write_whole_file(self._file_system, target, data)
        except (OSError, pa.ArrowException) as error:
            raise StorageError(
                f"cannot write the checkpoint {target!r}: {error}", hint="check checkpoint= and its permissions"
            ) from error

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


def _target_commit(files: list[CheckpointFile], expected: StateVersion, batch: int) -> str:
    """Return the commit to continue from: the newest of the batch itself if it was uploaded, else the expected one."""
    commit = expected.commit
    while True:
        next_deltas = [
            file for file in files if file.kind == _DELTA and file.previous == commit and file.batch == batch
        ]
        if not next_deltas:
            return commit
        commit = next_deltas[-1].commit


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
