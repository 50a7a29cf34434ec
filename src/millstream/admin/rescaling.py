"""Change the number of partitions of a stopped app, and move each row to the new partition of its key.

The new state is built next to the old state and compared with it. One commit of the journal then replaces the old
state; until that commit the old state is valid.
"""

from __future__ import annotations

import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from millstream.admin.changelogs import restore_states
from millstream.admin.checkpoints import restore_from_checkpoint
from millstream.admin.journals import fetch_journal, journal_of
from millstream.admin.upgrade import upgrade
from millstream.batch.batch import Progress
from millstream.batch.journal import StateMigration
from millstream.batch.planner import BatchSize, Planner, records_in
from millstream.broker import Broker
from millstream.errors import AlreadyRunningError, DefinitionError, StateError, UpgradeError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import lock_file, state_dir
from millstream.foundation.storage import close_environments
from millstream.foundation.transactions import Transaction
from millstream.plan.describe import view
from millstream.plan.layout import Layout
from millstream.plan.stages import Stage
from millstream.plan.topology import Plan
from millstream.state.segments import position_layout
from millstream.state.stored_keys import key_of_entry, key_of_row, later_time
from millstream.state.task import StateVersion, TaskState
from millstream.tables.opening import catalog_of, readers_of, table_entries
from millstream.tables.rows import TableReader
from millstream.views.status import check_has_run

Rows = dict[bytes, bytes]
_NEW, _OLD = ".rescaled", ".before-rescale"


class RescaledStage(msgspec.Struct, frozen=True, kw_only=True):
    """A rescaled stage; ``rows`` is the number of rows in each store, including index entries of windows."""

    stage: str
    before: int
    now: int
    rows: dict[str, int]


def rescale(broker: Broker, data_dir: Path, app: str, plan: Plan, partitions: int) -> list[RescaledStage]:
    """Change the number of partitions of an app's source topics, and move its state accordingly."""
    fetch_journal(broker, data_dir, app)
    check_has_run(data_dir, app)
    lock = FileLock(lock_file(data_dir, app))
    if not lock.acquire(timeout=0.1):
        raise AlreadyRunningError(
            f"app {app!r} is running (process {lock.holder()})", hint="stop it first", process=lock.holder()
        )
    try:
        rescaling = _Rescaling(broker, data_dir, app, plan, partitions)
        try:
            return rescaling.run()
        finally:
            rescaling.close()
    finally:
        lock.release()


class _Rescaling:
    """One rescaling of an app."""

    def __init__(self, broker: Broker, data_dir: Path, app: str, plan: Plan, partitions: int) -> None:
        self._broker = broker
        self._journal = journal_of(broker, data_dir, app)
        self._state = state_dir(data_dir, app)
        checkpoint = self._journal.checkpoint()
        if checkpoint is not None:
            restore_from_checkpoint(app, self._state, self._journal, checkpoint)
        elif self._journal.changelog is not None:
            restore_states(app, self._state, self._journal, broker)
        self._journal.replay_commits(self._state)
        self._plan = plan
        self._count = partitions
        self._topics = {topic: broker.topic(topic).partitions for topic in plan.source_topics}
        self._before: dict[str, int] = self._journal.catalog()["partitions"]
        self._progress = self._checked_progress()
        self._layout = Layout.of(plan, dict.fromkeys(self._topics, partitions))
        self._tables = {entry.name: entry for entry in table_entries(self._layout)}
        self._readers = readers_of(self._layout, self._state)

    def run(self) -> list[RescaledStage]:
        """Build the new state, compare it with the old one, and switch over."""
        stages = [
            (stage, self._before[stage.name], count)
            for stage, count in zip(self._plan.stages, self._layout.partitions, strict=True)
            if stage.round == 0 and self._before[stage.name] != count
        ]
        for stage, _, _ in stages:
            self._check_stores(stage)
        versions: dict[str, StateVersion] = {}
        done = []
        for stage, before, now in stages:
            self._undo_unfinished(stage)
            rows = self._build(stage, before, now, versions)
            done.append(RescaledStage(stage=stage.name, before=before, now=now, rows=rows))
        self._switch([stage for stage, _, _ in stages], versions)
        return done

    def close(self) -> None:
        """Let the app write its journal again."""
        self._journal.leave()

    def _checked_progress(self) -> Progress:
        progress, planned = self._journal.read()
        if self._journal.catalog().get("plan") != view(self._plan):
            raise UpgradeError(
                "the topology has changed since the last run", hint="run it once, then change its partitions"
            )
        size = BatchSize(1, 1.0)
        planner = Planner(self._broker, list(self._topics), size, partitions_read=self._partitions_read)
        backlog = planner.backlog(progress)
        if planned is not None or backlog:
            waiting = f"{records_in(backlog)} records are waiting" if backlog else f"batch {planned and planned.number}"
            raise UpgradeError(
                f"the app has unprocessed input: {waiting}", hint="run the app with --until caught-up first"
            )
        too_many = {topic: count for topic, count in self._topics.items() if count > self._count}
        if too_many:
            topic, count = next(iter(too_many.items()))
            raise DefinitionError(
                f"topic {topic!r} has {count} partitions and cannot shrink to {self._count}",
                hint="choose a number that is not smaller",
            )
        return progress

    def _partitions_read(self, topic: str) -> int | None:
        """Return how many partitions of a topic the app has read; those added since then may have records waiting."""
        stages = [stage for stage in self._plan.stages if stage.reads(topic) and stage.name in self._before]
        return min((self._before[stage.name] for stage in stages), default=None)

    def _check_stores(self, stage: Stage) -> None:
        """Raise if a store has rows that a key alone does not locate; nothing was changed yet."""
        final_windows = {node.name for node in stage.nodes if getattr(node, "final", False)}
        for name in stage.store_names:
            entry = self._tables.get(name)
            if entry is None or not entry.key or entry.history is not None or name in final_windows:
                raise UpgradeError(
                    f"store {name!r} of stage {stage.name!r} cannot be moved to other partitions",
                    hint="only tables and windows with updates can; otherwise use millstream replay with another id",
                )
        if any(task.rpartition("/")[0] == stage.name for task in self._progress.timers):
            raise UpgradeError(f"stage {stage.name!r} has timers, which cannot be moved to other partitions")

    def _undo_unfinished(self, stage: Stage) -> None:
        """Undo a rescaling that was killed."""
        current, new, old = (self._state / f"{stage.name}{suffix}" for suffix in ("", _NEW, _OLD))
        if old.exists() and not current.exists():
            old.rename(current)
        for path in (new, old):
            close_environments(path)
            shutil.rmtree(path, ignore_errors=True)

    # Building

    def _build(self, stage: Stage, before: int, now: int, versions: dict[str, StateVersion]) -> dict[str, int]:
        old = [self._task(stage, "", partition) for partition in range(before)]
        new = [self._task(stage, _NEW, partition) for partition in range(now)]
        shared: dict[str, Rows] = {name: {} for name in stage.store_names}
        for name in stage.store_names:
            for state in old:
                parts = self._split(name, state, shared[name])
                for partition, part in parts.items():
                    _put(new[partition], name, part)
            for state in new:
                _put(state, name, shared[name])
        stream_time = max(state.read_version().stream_time for state in old)
        for partition, state in enumerate(new):
            version = StateVersion(self._progress.done, uuid.uuid4().hex, stream_time)
            state.start_at(version)
            versions[f"{stage.name}/{partition}"] = version
        counts = {name: self._compare(name, old, new, shared[name]) for name in stage.store_names}
        close_environments(self._state / f"{stage.name}{_NEW}")
        return counts

    def _task(self, stage: Stage, suffix: str, partition: int) -> TaskState:
        return TaskState(self._state / f"{stage.name}{suffix}" / str(partition), stage.store_names)

    def _split(self, name: str, state: TaskState, shared: Rows) -> dict[int, Rows]:
        """Return the rows of a store by their new partition; add rows that all partitions share to ``shared``."""
        reader: TableReader = self._readers[name]
        parts: dict[int, Rows] = defaultdict(dict)
        for physical, stored in state.scan(name):
            key = self._key(name, physical, stored)
            if key is None:
                shared[physical] = later_time(stored, shared.get(physical, stored))
            else:
                (partition,) = reader.partitions_of(key)
                parts[partition][physical] = stored
        return parts

    def _key(self, name: str, physical: bytes, stored: bytes) -> Any:
        windows = self._tables[name].windows
        if windows is None:
            return key_of_row(physical, stored)
        return key_of_entry(physical, stored, position_layout(windows))

    # Comparing and switching

    def _compare(self, name: str, old: list[TaskState], new: list[TaskState], shared: Rows) -> int:
        """Read everything again: the rows must be the same, and each in the partition where readers look for it."""
        before, after = _digest(_rows_of(old, name, shared)), _digest(_rows_of(new, name, shared))
        misplaced = [
            partition
            for partition, state in enumerate(new)
            for physical, stored in _rows_of([state], name, shared)
            if self._readers[name].partitions_of(self._key(name, physical, stored)) != [partition]
        ]
        if before != after or misplaced:
            raise StateError(
                f"the rows of {name!r} differ after the move; nothing was changed",
                hint="this is a bug; the new state was kept next to the old one for inspection",
            )
        return after[0]

    def _switch(self, stages: list[Stage], versions: dict[str, StateVersion]) -> None:
        for topic, count in self._topics.items():
            if count < self._count:
                self._broker.alter_topic(topic, partitions=self._count)
        names = {stage.name for stage in stages}
        close_environments(self._state)
        for name in names:
            (self._state / name).rename(self._state / f"{name}{_OLD}")
        kept = {
            task: version for task, version in self._progress.versions.items() if task.rpartition("/")[0] not in names
        }
        progress = msgspec.structs.replace(self._progress, versions={**kept, **versions})
        catalog = {**self._journal.catalog(), **catalog_of(self._layout)}
        self._journal.write_catalog(catalog, progress, StateMigration(move={f"{name}{_NEW}": name for name in names}))
        upgrade(self._journal, self._state, catalog)
        for name in names:
            shutil.rmtree(self._state / f"{name}{_OLD}", ignore_errors=True)


def _put(state: TaskState, store: str, rows: Rows) -> None:
    def change(txn: Transaction) -> None:
        for physical, stored in rows.items():
            txn.put(physical, stored, db=state.database(store))

    if rows:
        state.update(change)


def _rows_of(states: list[TaskState], store: str, shared: Rows) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows of a store in several tasks, without the rows that all of them share."""
    return (row for state in states for row in state.scan(store) if row[0] not in shared)


def _digest(rows: Iterator[tuple[bytes, bytes]]) -> tuple[int, int]:
    """Return the number of rows and a digest that does not depend on their order."""
    count = digest = 0
    for physical, stored in rows:
        count += 1
        data = len(physical).to_bytes(4, "big") + physical + stored
        digest = (digest + int.from_bytes(blake2b(data, digest_size=16).digest(), "big")) % 2**128
    return count, digest
