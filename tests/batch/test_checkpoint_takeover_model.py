"""Takeover with journal and state in a checkpoint, in many orders of the steps of several drivers, and at each death.

Log, files and state are real. Each driver runs in its own thread with its own disk. A schedule decides before every
access to the checkpoint or to the log which driver continues, and who dies. The app is not deterministic: a second run
of a batch sends other records between its stages.
"""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.schedules import DiedError, Schedule

from millstream import App, Config
from millstream.batch.assembly import Assembly, TaskSettings
from millstream.batch.batch import Batch, check_ran, progress_after
from millstream.batch.execute import run_batch, task_names
from millstream.batch.journal import Journal
from millstream.batch.journal_files import JournalFiles
from millstream.batch.shared_journal import Owner
from millstream.broker import Output, TopicConfig
from millstream.errors import StateError
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.plan.layout import Layout
from millstream.state.checkpoint import Checkpoint, TaskCheckpoint
from millstream.state.task import TaskState
from millstream.task.policy import Policies
from millstream.task.task_input import Range

BATCHES = 3
app = App("model", config=Config(partitions=1, caching=False))
(
    app.stream("in", value=str)
    .group_by(lambda _: f"k{random.randrange(10**9)}", name="by_chance")
    .count(name="counts")
    .to_stream()
    .to("out")
)
LAYOUT = Layout.of(app.plan, {"in": 1})
NAMES = task_names(LAYOUT)
_driver = threading.local()


def _step(access: str) -> None:
    step: Callable[[str], None] | None = getattr(_driver, "step", None)
    if step is not None:
        step(access)


@pytest.fixture(autouse=True)
def _steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the schedule decide before every access to the checkpoint and to the output."""

    def stepping(target: Any, name: str) -> None:
        call = getattr(target, name)

        def step_and_call(*arguments: Any, **options: Any) -> Any:
            _step(name)
            return call(*arguments, **options)

        monkeypatch.setattr(target, name, step_and_call)

    import millstream.batch.journal_files as journal_files
    import millstream.state.checkpoint as checkpoint

    for target, name in (
        (journal_files, "create_once"),
        (JournalFiles, "_numbers"),
        (JournalFiles, "_read"),
        (checkpoint, "create_once"),
        (checkpoint, "write_whole_file"),
        (TaskCheckpoint, "_read"),
        (Checkpoint, "of_task"),
        (EmbeddedLog, "append_once"),
    ):
        stepping(target, name)


class Model:
    """A log and a checkpoint that several hosts use."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = EmbeddedLog(directory / "log", durability="os")
        for topic in ("in", "out"):
            self.log.create_topic(topic, TopicConfig(partitions=1))
        self.log.append([Output("in", 0, block_of([b"key"] * BATCHES, [b"value"] * BATCHES, [1] * BATCHES))])
        self.uri = str(directory / "checkpoint")

    def drive(self, host: str, step: Callable[[str], None]) -> None:
        """Take the app over and run batches of one record until all are done, as a driver does."""
        _driver.step = step
        disk = self.directory / host
        files = JournalFiles(self.uri, "model", Owner.new())
        journal = Journal(disk / "journal", durable=False, changelog=files)
        try:
            journal.take_over()
            settings = TaskSettings(
                app="model",
                state_dir=str(disk / "state"),
                policies=Policies.of("model", app.config),
                lineage=journal.lineage(),
                caching=False,
                durable=False,
                checkpoint=self.uri,
                snapshot_every=2,
            )
            env = Assembly(settings, LAYOUT, self.log).environment()
            progress, planned = journal.read()
            while progress.done < BATCHES:
                batch = planned or _batch(progress.done + 1)
                if planned is None:
                    journal.write(progress, batch)
                try:
                    reports = run_batch(env, batch, progress.versions)
                except StateError:
                    journal.check_owner()
                    raise
                check_ran(batch, NAMES, reports)
                progress, planned = progress_after(progress, batch, NAMES, reports), None
                journal.write(progress, None)
        finally:
            _driver.step = None
            close_environments(disk)

    def check(self) -> None:
        """Finish the batches on another host, then compare what was published with the state that it restores."""
        self.drive("last", lambda _: None)
        published: dict[bytes, list[int]] = defaultdict(list)
        for chunk in self.log.read("out", 0, 0, 2**40):
            for key, value in zip(chunk.block.column(0).to_pylist(), chunk.block.column(1).to_pylist(), strict=True):
                published[key].append(int(value))
        assert sum(map(len, published.values())) == BATCHES, f"published {dict(published)}"
        for key, counts in published.items():
            assert counts == list(range(1, len(counts) + 1)), f"{key!r} has the counts {counts}"
        journal = Journal(self.directory / "last" / "journal")
        stage = next(name for name in journal.read()[0].versions if not name.startswith("in/"))
        state = TaskState(self.directory / "restored", ("counts",), sync=False)
        files = Checkpoint(self.uri, "model", journal.lineage()).of_task(stage)
        files.restore(state, journal.read()[0].versions[stage], BATCHES + 1)
        keys = {key.removeprefix(b"s") for key, _ in state.scan("counts")}  # s: its type
        assert keys == set(published), "the state has other keys than the output"
        close_environments(self.directory)
        self.log.close()


def _batch(number: int) -> Batch:
    return Batch(number=number, wall_time=1, ranges=(Range("in", 0, number - 1, number),))


def explore(tmp_path: Path, seeds: range, drivers: int, *, dies: float) -> None:
    for seed in seeds:
        chance = random.Random(seed)
        current = 0

        def choose(alive: list[int], chance: random.Random = chance) -> tuple[int, bool]:
            """Let a driver continue for a while: most orders that matter have few switches."""
            nonlocal current
            if current not in alive or chance.random() < 0.1:
                current = chance.choice(alive)
            return current, chance.random() < dies

        model, schedule = Model(tmp_path / str(seed)), Schedule(choose)
        try:
            schedule.run(*(_on_host(model, schedule) for _ in range(drivers)))
            model.check()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def _on_host(model: Model, schedule: Schedule) -> Callable[[int], None]:
    return lambda number: model.drive(f"host{number}", lambda _: schedule.step(number))


FIRST = random.randrange(1_000_000)


@pytest.mark.parametrize("drivers", [2, 3])
def test_drivers_that_take_over_from_each_other_process_each_record_once(tmp_path: Path, drivers: int) -> None:
    print(f"first seed {FIRST}")
    explore(tmp_path, range(FIRST, FIRST + 8), drivers, dies=0.0)


@pytest.mark.parametrize("drivers", [2, 3])
def test_killed_drivers_change_nothing(tmp_path: Path, drivers: int) -> None:
    print(f"first seed {FIRST}")
    explore(tmp_path, range(FIRST, FIRST + 8), drivers, dies=0.02)


def test_a_driver_can_die_at_each_step(tmp_path: Path) -> None:
    """The next one has an empty disk, then the disk of the first one again."""
    for host in ("another", "first"):
        for number in _steps_of_a_run(tmp_path / host)[:: 1 if host == "another" else 4]:
            model = Model(tmp_path / host / str(number))
            left = iter(range(number))

            def step(_: str, left: Iterator[int] = left) -> None:
                if next(left, None) is None:
                    raise DiedError

            with pytest.raises(DiedError):
                model.drive("first", step)
            model.drive(host, lambda _: None)
            model.check()


def _steps_of_a_run(directory: Path) -> Sequence[int]:
    steps: list[None] = []
    model = Model(directory / "whole")
    model.drive("first", lambda _: steps.append(None))
    model.check()
    return range(len(steps))


def run_two_attempts(directory: Path) -> None:
    """Let two drivers reach each upload of their first batch before either of them uploads."""
    uploads = [0, 0]
    turns = [(0, 1), (1, 1), (0, 2), (1, 2)]

    def choose(alive: list[int]) -> tuple[int, bool]:
        """Let a driver continue until its next upload."""
        while turns and uploads[turns[0][0]] >= turns[0][1]:
            turns.pop(0)
        return (turns[0][0] if turns and turns[0][0] in alive else alive[0]), False

    model, schedule = Model(directory), Schedule(choose)

    def drive(number: int) -> None:
        def step(access: str) -> None:
            uploads[number] += access == "write_whole_file"
            schedule.step(number)

        model.drive(f"host{number}", step)

    schedule.run(drive, drive)
    assert not turns, "the drivers did not run the same batch"
    model.check()


def test_two_attempts_of_the_tasks_of_a_batch_agree(tmp_path: Path) -> None:
    run_two_attempts(tmp_path)


def test_the_model_detects_a_checkpoint_that_does_not_choose_between_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TaskCheckpoint, "_choose", lambda _, delta: delta.commit)
    with pytest.raises(AssertionError, match="other keys"):
        run_two_attempts(tmp_path)


def test_the_model_detects_a_run_that_is_not_fenced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without exclusive creation, the file of the other run is replaced."""

    def replace(_: object, path: str, data: bytes) -> bool:
        _step("create_once")
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(data)
        return True

    monkeypatch.setattr("millstream.batch.journal_files.create_once", replace)
    with pytest.raises(BaseException, match=r"published|has the counts|other keys|is at batch|files are missing"):
        explore(tmp_path, range(100), 2, dies=0.0)
