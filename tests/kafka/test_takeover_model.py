"""Fencing and takeover with the real journal, tasks and changelogs, in many orders of the steps of several drivers.

The cluster is a model of what Kafka guarantees: epochs of transactional ids, transactions that take effect entirely or
not at all, readers that see committed records only, and responses that are lost. Each driver runs in its own thread
with its own disk. A schedule decides at every request to the cluster which driver continues, and who dies. The app is
not deterministic: a second run of a batch sends other records between its stages.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.schedules import Schedule

from millstream import App, Config
from millstream.batch.assembly import Assembly, TaskSettings
from millstream.batch.batch import Batch, check_ran, progress_after
from millstream.batch.execute import run_batch, task_names
from millstream.batch.journal import Journal
from millstream.batch.journal_changelog import JournalChangelog
from millstream.batch.shared_journal import Owner
from millstream.batch.write_behind import DeferredJournal, WriteBehind
from millstream.broker import Offsets, Output, RecordChunk, TopicConfig, TopicInfo, WriterLostError
from millstream.errors import EngineError, StateError
from millstream.foundation.blocks import block_of
from millstream.foundation.names import changelog_topic_name, journal_topic_name
from millstream.foundation.storage import close_environments
from millstream.plan.layout import Layout
from millstream.state.task import TaskState
from millstream.task import task_changelog
from millstream.task.changelog import ChangelogTopic
from millstream.task.policy import Policies
from millstream.task.task_changelog import TaskChangelog
from millstream.task.task_input import Range

BATCHES = 3
Record = tuple[bytes, bytes | None]


class Cluster:
    """Topics, and the epochs of transactional ids."""

    def __init__(self, chance: random.Random, lost: float) -> None:
        self.logs: dict[tuple[str, int], list[Record | None]] = defaultdict(list)
        self.epochs: dict[str, int] = defaultdict(int)
        self.late: dict[str, list[Output]] = {}
        """Transactions whose end has not arrived yet, by transactional id."""
        self._chance = chance
        self._lost = lost

    def open(self, name: str) -> int:
        """Decide an unfinished transaction, one way or the other, and start an epoch."""
        late = self.late.pop(name, None)
        if late is not None and self._chance.random() < 0.5:
            self._append(late)
        self.epochs[name] += 1
        return self.epochs[name]

    def commit(self, name: str, epoch: int, outputs: list[Output]) -> None:
        if epoch != self.epochs[name]:
            raise WriterLostError("fenced")
        if self._chance.random() < self._lost:
            outcome = self._chance.choice(["committed", "aborted", "late"])
            if outcome == "committed":
                self._append(outputs)
            elif outcome == "late":
                self.late[name] = outputs
            raise WriterLostError("no response")
        self._append(outputs)

    def _append(self, outputs: list[Output]) -> None:
        touched = set()
        for output in outputs:
            log = self.logs[output.topic, output.partition]
            log += zip(output.block.column(0).to_pylist(), output.block.column(1).to_pylist(), strict=True)
            touched.add((output.topic, output.partition))
        for partition in touched:
            self.logs[partition].append(None)  # the end of a transaction takes an offset


class ModelWriter:
    def __init__(self, broker: ModelBroker, name: str) -> None:
        self._broker = broker
        self._name = name
        self._epoch: int | None = None

    @property
    def is_open(self) -> bool:
        return self._epoch is not None

    def open(self) -> None:
        self._broker.step()
        self._epoch = self._broker.cluster.open(self._name)

    def commit(self, outputs: Sequence[Output]) -> None:
        self._broker.step()
        if self._epoch is None:
            raise WriterLostError("not open")
        try:
            self._broker.cluster.commit(self._name, self._epoch, list(outputs))
        except WriterLostError:
            self._epoch = None
            raise

    def close(self) -> None:
        self._epoch = None


class ModelBroker:
    """The cluster as one driver sees it."""

    url = "model:"

    def __init__(self, cluster: Cluster, step: Callable[[], None]) -> None:
        self.cluster = cluster
        self.step = step
        self._writers: dict[str, ModelWriter] = {}

    def fenced_writer(self, name: str) -> ModelWriter:
        return self._writers.setdefault(name, ModelWriter(self, name))

    def create_changelog(self, topic: str, partitions: int) -> None:
        raise AssertionError

    def topic(self, name: str) -> TopicInfo:
        offsets = tuple(self.offsets(name))
        return TopicInfo(name=name, config=TopicConfig(partitions=1), offsets=offsets, bytes=(), id=name)

    def offsets(self, topic: str) -> list[Offsets]:
        return [Offsets(0, len(self.cluster.logs[topic, 0]))]

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[RecordChunk]:
        self.step()
        log = list(enumerate(self.cluster.logs[topic, partition]))[start:end]
        rows = [(offset, record) for offset, record in log if record is not None]
        if rows:
            keys, values = zip(*(record for _, record in rows), strict=True)
            yield RecordChunk(block_of(keys, values, [1] * len(rows)), [offset for offset, _ in rows], end)


app = App("model", config=Config(partitions=1, caching=False))
(
    app.stream("in", value=str)
    .group_by(lambda _: f"k{random.randrange(10**9)}"[:3], name="by_chance")
    .count(name="counts")
    .to_stream()
    .to("out")
)
LAYOUT = Layout.of(app.plan, {"in": 1})
NAMES = task_names(LAYOUT)
TOPICS = {stage: ChangelogTopic(changelog_topic_name("model", stage), stage) for stage in LAYOUT.partitions_by_stage}


def drive(cluster: Cluster, disk: Path, step: Callable[[], None], *, behind: bool, until: int = BATCHES) -> None:
    """Take the app over and run batches of one record until all are done, as a driver does."""
    broker: Any = ModelBroker(cluster, step)
    topic = ChangelogTopic(journal_topic_name("model"), "journal")
    changelog = JournalChangelog(broker, "model", topic, Owner.new())
    journal = Journal(disk / "journal", durable=False, changelog=changelog)
    journal.take_over()
    settings = TaskSettings(
        app="model",
        state_dir=str(disk / "state"),
        policies=Policies.of("model", app.config),
        caching=False,
        durable=False,
        changelogs=TOPICS,
        generation=changelog.owner.generation(1),
    )
    env = Assembly(settings, LAYOUT, broker).environment()
    deferred = None
    if behind:
        journal.leave()
        changelog = JournalChangelog(broker, "model", topic, changelog.owner)
        deferred = WriteBehind(env, DeferredJournal(disk / "journal", durable=False, changelog=changelog))
        journal = deferred.journal
        journal.join()
    execute = deferred or partial(run_batch, env)
    try:
        progress, planned = journal.read()
        while progress.done < until:
            batch = planned or _batch(progress.done + 1)
            if planned is None:
                journal.write(progress, batch)
            try:
                reports = execute(batch, progress.versions)
            except EngineError:  # the batch had committed although the response was lost
                progress, planned = journal.read()
                continue
            except StateError:
                journal.check_owner()
                raise
            check_ran(batch, NAMES, reports)
            progress, planned = progress_after(progress, batch, NAMES, reports), None
            journal.write(progress, None)
        if deferred is not None:
            deferred.flush()
    finally:
        if deferred is not None:
            deferred._abort()
        close_environments(disk)


def _batch(number: int) -> Batch:
    return Batch(number=number, wall_time=1, ranges=(Range("in", 0, number - 1, number),))


def check(cluster: Cluster, disk: Path) -> None:
    """Finish the batches on another host, then compare what was published with the state that it restores."""
    drive(cluster, disk / "last", lambda: None, behind=False)
    published: dict[bytes, list[int]] = defaultdict(list)
    for record in cluster.logs["out", 0]:
        if record is not None:
            published[record[0]].append(int(record[1] or 0))
    assert sum(map(len, published.values())) == BATCHES, f"published {dict(published)}"
    for key, counts in published.items():
        assert counts == list(range(1, len(counts) + 1)), f"{key!r} has the counts {counts}"
    broker: Any = ModelBroker(cluster, lambda: None)
    stage = next(stage for stage in TOPICS if stage != "in")
    changelog = task_changelog.TaskChangelogs(broker, "model", TOPICS).of_task(stage, 0)
    state = TaskState(disk / "restored", ("counts",), sync=False)
    changelog.restore(state)
    assert state.read_version().batch == BATCHES
    assert sum(1 for _ in state.scan("counts")) == len(published), "the state has other keys than the output"
    close_environments(disk)


def explore(tmp_path: Path, seeds: range, modes: Sequence[bool], *, lost: float, dies: float) -> None:
    for seed in seeds:
        chance = random.Random(seed)
        cluster = Cluster(chance, lost)
        cluster.logs["in", 0] += [(b"key", b"value")] * BATCHES
        current = 0

        def choose(alive: list[int], chance: random.Random = chance) -> tuple[int, bool]:
            """Let a driver continue for a while: most orders that matter have few switches."""
            nonlocal current
            if current not in alive or chance.random() < 0.1:
                current = chance.choice(alive)
            return current, chance.random() < dies

        schedule = Schedule(choose)
        disk = tmp_path / str(seed)
        drivers = [
            partial(
                lambda number, behind, cluster, schedule, disk: drive(
                    cluster, disk / f"host{number}", partial(schedule.step, number), behind=behind
                ),
                behind=behind,
                cluster=cluster,
                schedule=schedule,
                disk=disk,
            )
            for behind in modes
        ]
        try:
            schedule.run(*drivers)
            check(cluster, disk)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.fixture(autouse=True)
def _one_request_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads of the model are the drivers, so a driver must not send requests from several threads."""
    monkeypatch.setattr(task_changelog, "_MAX_THREADS", 1)


FIRST = random.randrange(1_000_000)
MODES = [(False, False), (True, True), (False, True), (True, False, True)]


@pytest.mark.parametrize("modes", MODES, ids=["tasks", "behind", "tasks then behind", "three"])
def test_drivers_that_take_over_from_each_other_process_each_record_once(tmp_path: Path, modes: Sequence[bool]) -> None:
    print(f"first seed {FIRST}")
    explore(tmp_path, range(FIRST, FIRST + 15), modes, lost=0.0, dies=0.0)


@pytest.mark.parametrize("modes", MODES, ids=["tasks", "behind", "tasks then behind", "three"])
def test_lost_responses_and_killed_drivers_change_nothing(tmp_path: Path, modes: Sequence[bool]) -> None:
    print(f"first seed {FIRST}")
    explore(tmp_path, range(FIRST, FIRST + 15), modes, lost=0.2, dies=0.02)


def test_the_model_detects_a_task_that_does_not_read_its_changelog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that trusts the journal alone processes a batch that another attempt has committed."""

    def only_open(self: TaskChangelog, state: Any, expected: Any, batch: int) -> float:
        self.partition.position(state.environment)
        if not self.writer.is_open:
            self.writer.open()
        if state.read_version().commit != expected.commit:
            self.restore(state)
        return 0.0

    monkeypatch.setattr(TaskChangelog, "bring_up_to_date", only_open)
    with pytest.raises(BaseException, match=r"published|has the counts|is at batch"):
        explore(tmp_path, range(200), (False, False), lost=0.2, dies=0.05)


def test_the_model_detects_a_resident_task_that_does_not_claim_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fencing alone is not enough: a task of an earlier driver opens its writer again."""

    def only_fence(self: TaskChangelog) -> None:
        self.writer.open()
        self.writer.close()

    monkeypatch.setattr(TaskChangelog, "claim", only_fence)
    with pytest.raises(BaseException, match=r"published|has the counts|is at batch"):
        explore(tmp_path, range(400), (False, True), lost=0.0, dies=0.0)
