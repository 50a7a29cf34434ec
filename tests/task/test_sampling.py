"""Which batches are measured, what is measured, and that it has no effect on the results."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from millstream import App, tumbling
from millstream.operators.probe import Probe
from millstream.state.task import StateVersion
from millstream.task.environment import TaskEnvironment
from millstream.task.runner import run_task
from millstream.task.sampling import Sampling
from millstream.task.task_input import Range, ShuffleInput, TaskInput

Send = Callable[..., None]

SMALL = TaskInput(0, 1, 0, StateVersion(), (Range("n", 0, 0, 100),))
LARGE = TaskInput(0, 1, 0, StateVersion(), (Range("n", 0, 0, 50_000),))
LARGE_LETTER = TaskInput(0, 1, 0, StateVersion(), (), (ShuffleInput("e", 0, bytes(600_000)),))


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_small_batches_are_measured_once_a_second() -> None:
    clock = Clock()
    sampling = Sampling(clock)
    assert sampling.probe(SMALL) is None  # a short run is not slowed down
    clock.now += 1
    assert sampling.probe(SMALL) is not None
    sampling.note(0, 0.001)
    clock.now += 0.9
    assert sampling.probe(SMALL) is None
    clock.now += 0.1
    assert sampling.probe(SMALL) is not None


def test_large_batches_have_longer_pauses_in_proportion_to_the_cost_of_measuring() -> None:
    clock = Clock()
    sampling = Sampling(clock)
    clock.now += 9.9
    assert sampling.probe(LARGE) is None
    assert sampling.probe(LARGE_LETTER) is None
    clock.now += 0.1
    assert sampling.probe(LARGE) is not None
    sampling.note(0, 2.0)
    clock.now += 99
    assert sampling.probe(LARGE) is None
    assert sampling.probe(SMALL) is None
    clock.now += 1
    assert sampling.probe(LARGE) is not None


def test_each_task_has_its_own_turn() -> None:
    clock = Clock()
    sampling = Sampling(clock)
    clock.now += 1
    sampling.note(1, 0.001)
    clock.now += 0.1
    assert sampling.probe(SMALL) is not None


def test_many_tasks_share_the_time_for_measuring() -> None:
    clock = Clock()
    sampling = Sampling(clock)
    clock.now += 1
    measured = 0
    for _ in range(100):
        for task in range(64):
            clock.now += 0.005
            if sampling.probe(msgspec.structs.replace(SMALL, task=task)) is not None:
                sampling.note(task, 0.005)
                measured += 1
    assert measured == pytest.approx(100 * 64 / 50, rel=0.1)


class Always(Sampling):
    """Measures every batch."""

    def probe(self, work: TaskInput) -> Probe | None:
        return Probe()


def fanning() -> App:
    app = App("test")
    numbers = app.stream("n", value=int)
    even, odd = numbers.filter(lambda n: n % 2 == 0, name="even"), numbers.filter_not(lambda n: n % 2 == 0, name="odd")
    even.merge(odd.flat_map_values(lambda n: [n, n], name="twice"), name="all").to("out", name="written")
    numbers.group_by_key().windowed_by(tumbling("1 s")).count(name="counts").to_stream().to("counted")
    return app


def test_records_are_counted_on_every_edge(make_env: Callable[..., TaskEnvironment], send: Send) -> None:
    env = make_env(fanning(), sampling=Always())
    send("n", *(str(number) for number in range(10)))
    report, _ = run_task(env, TaskInput(0, 1, 0, StateVersion(), (Range("n", 0, 0, 10),)))
    seen = report.measured
    assert seen is not None
    assert seen.records_in == 10
    assert seen.edges == {
        "n>even": 10,
        "n>odd": 10,
        "even>all": 5,
        "odd>twice": 5,
        "twice>all": 10,
        "all>written": 15,
        "n>counts": 10,
        "counts>counts.to_stream": 1,  # caching defers the others
        "counts.to_stream>counts.sink": 1,
    }
    assert [record.value for record in seen.samples["twice>all"]] == ["5", "7", "7", "9", "9"]
    assert [record.value for record in seen.samples["counts>counts.to_stream"]] == ["10"]
    assert set(seen.seconds) == {
        "n",
        "even",
        "odd",
        "twice",
        "all",
        "written",
        "counts",
        "counts.to_stream",
        "counts.sink",
    }
    assert all(seconds >= 0 for seconds in seen.seconds.values())
    assert 0 < sum(seen.seconds.values()) <= report.seconds


def test_measuring_does_not_change_the_output(
    make_env: Callable[..., TaskEnvironment], send: Send, read: Callable[[str], list[bytes]]
) -> None:
    written = []
    for number, sampling in enumerate((Always(), Sampling())):
        app = fanning()
        app.id = f"app-{number}"
        env = make_env(app, sampling=sampling)
        env.state_dir /= app.id
        if number == 0:
            send("n", *(str(value) for value in range(50)))
        before = [len(read(topic)) for topic in ("out", "counted")]
        report, _ = run_task(env, TaskInput(0, 1, 0, StateVersion(), (Range("n", 0, 0, 50),)))
        assert (report.measured is not None) == (number == 0)
        written.append([read(topic)[start:] for topic, start in zip(("out", "counted"), before, strict=True)])
    assert written[0] == written[1]
    assert len(written[0][0]) == 75
