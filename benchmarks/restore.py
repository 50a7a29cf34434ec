"""Restore the state of a task on an empty disk: from its changelog, from a snapshot, and from deltas of a checkpoint.

Rows have keys of 12 bytes, in no order, and values of 40. The changelog is in a Kafka broker on this host. The result
is rows per second by the clock and per second of CPU time of the restoring process, without that of the broker.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from millstream.broker import Output
from millstream.foundation.storage import close_environments
from millstream.kafka import KafkaBroker
from millstream.state.changelog_rows import changelog_block
from millstream.state.checkpoint import Checkpoint, commit_uploaded
from millstream.state.recording import Changes
from millstream.state.task import StateVersion, TaskState, store_database
from millstream.task.changelog import ChangelogTopic
from millstream.task.task_changelog import TaskChangelogs
from millstream.testing.kafka import Cluster

_STORE = "rows"
_CHUNK = 20_000
_STRIDE = 2_654_435_761  # without a common divisor with powers of ten: keys come in no order, each once


def main() -> None:
    """Print a line for each kind of restore."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory(prefix="millstream-restore-") as name, Cluster() as cluster:
        _measure(Path(name), KafkaBroker(cluster.url), rows)
        close_environments(Path(name))


def _measure(directory: Path, broker: KafkaBroker, rows: int) -> None:
    broker.create_changelog("restore.changelog", 1)
    topic = ChangelogTopic("restore.changelog", broker.topic("restore.changelog").id)
    writer = broker.fenced_writer("restore")
    writer.open()
    for changes in _chunks(rows):
        writer.commit([Output(topic.name, 0, changelog_block(changes))])
        if not writer.is_open:
            writer.open()
    writer.close()
    plain = TaskChangelogs(broker, "restore", {"stage": topic})
    snapshots = Checkpoint(str(directory / "snapshots"), "restore", "lineage")
    with_snapshot = TaskChangelogs(broker, "restore", {"stage": topic}, snapshots=snapshots)
    state = _state(directory / "from-changelog")
    _report("changelog", rows, state, lambda: plain.of_task("stage", 0).restore(state))
    snapshots.of_task("stage/0").upload_snapshot(state)
    copy = _state(directory / "from-snapshot")
    _report(
        "snapshot, then the rest of the changelog", rows, copy, lambda: with_snapshot.of_task("stage", 0).restore(copy)
    )
    deltas = Checkpoint(str(directory / "deltas"), "restore", "lineage", snapshot_every=1_000_000)
    version = _upload(deltas, _state(directory / "uploading"), rows)
    last = _state(directory / "from-deltas")
    _report(
        "deltas of a checkpoint",
        rows,
        last,
        lambda: deltas.of_task("stage/0").restore(last, version, version.batch + 1),
    )


def _chunks(rows: int) -> Iterator[Changes]:
    database = store_database(_STORE)
    for first in range(0, rows, _CHUNK):
        numbers = range(first, min(rows, first + _CHUNK))
        yield {(database, b"%012d" % (number * _STRIDE % rows)): b"%040d" % number for number in numbers}


def _upload(checkpoint: Checkpoint, state: TaskState, rows: int) -> StateVersion:
    """Commit the rows as batches of a task; return the last version."""
    version = StateVersion()
    for batch, changes in enumerate(_chunks(rows), 1):
        after = StateVersion(batch, f"{batch:032x}", base=version.commit)

        def apply(txn: Any, changes: Changes = changes, after: StateVersion = after) -> None:
            with txn.cursor(state.database(_STORE)) as cursor:
                cursor.putmulti([(key, value) for (_, key), value in changes.items() if value is not None])
            state.save(txn, after, b"")

        commit_uploaded(checkpoint, "stage/0", state, version, batch, apply)
        version = after
    return version


def _state(path: Path) -> TaskState:
    return TaskState(path, (_STORE,))


def _report(source: str, rows: int, state: TaskState, restore: Callable[[], object]) -> None:
    clock, cpu = time.perf_counter(), time.process_time()
    restore()
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    restored = sum(1 for _ in state.scan(_STORE))
    assert restored == rows, f"{restored} of {rows} rows were restored"
    print(f"{source}: {rows:,} rows in {clock:.1f} s, {rows / clock:,.0f} rows/s, {rows / cpu:,.0f} per CPU second")


if __name__ == "__main__":
    main()
