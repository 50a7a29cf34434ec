"""Timers of a task: it runs without records if one is due, and a batch is not applied twice."""

import uuid
from collections.abc import Callable

from millstream import App, Processor, Record, punctuate
from millstream.state.task import StateVersion
from millstream.task.environment import TaskEnvironment
from millstream.task.runner import run_task
from millstream.task.task_input import TaskInput

MakeEnv = Callable[..., TaskEnvironment]
Read = Callable[[str], list[bytes]]


class Tick(Processor):
    @punctuate(every="10 ms", on="wall")
    def tick(self, now: int) -> None:
        self.context.forward(key="k", value=uuid.uuid4().hex)

    def process(self, record: Record) -> None: ...


def at(batch: int, wall_time: int, expected: StateVersion | None = None, *, has_timer: bool = True) -> TaskInput:
    return TaskInput(0, batch, wall_time, expected or StateVersion(), has_timer=has_timer)


def test_a_task_runs_for_a_timer_and_reports_when_the_next_is_due(make_env: MakeEnv, read: Read) -> None:
    app = App("test")
    app.stream("n").process(Tick, name="ticks").to("out")
    env = make_env(app)
    report, _ = run_task(env, at(1, 100))
    assert (report.timers, read("out")) == ({"ticks": 110}, [])
    report, _ = run_task(env, at(2, 125, StateVersion(1, report.commit)))
    assert report.timers == {"ticks": 130}
    assert len(read("out")) == 1


def test_without_a_due_timer_the_state_is_not_opened(make_env: MakeEnv) -> None:
    app = App("test")
    app.stream("n").process(Tick, name="ticks").to("out")
    env = make_env(app)
    report, _ = run_task(env, at(1, 100, has_timer=False))
    assert (report.commit, report.timers) == ("", {})
    assert not env.state_dir.exists()


def test_a_batch_of_timers_that_runs_again_is_replayed(make_env: MakeEnv, read: Read) -> None:
    app = App("test")
    app.stream("n").process(Tick, name="ticks").to("out")
    env = make_env(app)
    first, _ = run_task(env, at(1, 100))
    done = StateVersion(1, first.commit)
    once, _ = run_task(env, at(2, 110, done))
    published = read("out")
    again, _ = run_task(env, at(2, 110, done))
    assert (again.replayed, again.timers) == (True, once.timers)
    assert read("out") == published
