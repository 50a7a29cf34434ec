"""A stage in a cycle runs in rounds; a batch that runs again continues at the right round."""

import uuid
from collections.abc import Callable

import pytest

from millstream import App, join_window
from millstream.batch.batch import Batch, Progress, progress_after
from millstream.batch.execute import run_batch, task_names
from millstream.state.task import StateVersion
from millstream.task.environment import TaskEnvironment
from millstream.task.report import TaskReport
from millstream.task.run import TaskRun
from millstream.task.runner import run_task
from millstream.task.task_input import Range, TaskInput

MakeEnv = Callable[..., TaskEnvironment]
Send = Callable[..., None]
Read = Callable[[str], list[bytes]]


@pytest.fixture
def app() -> App:
    """Every record is joined with the number of records before its batch; a random value would show a second run."""
    app = App("test")
    records = app.stream("n")
    counts = records.filter(lambda number: number > 0).group_by(lambda key, _value: key).count(name="seen")
    records.left_join(counts, lambda _value, count: [count, uuid.uuid4().hex]).to("out")
    counts.to_stream().to("counts")
    return app


def batch(number: int, start: int, stop: int) -> Batch:
    return Batch(number=number, wall_time=0, ranges=(Range("n", 0, start, stop),))


def run(env: TaskEnvironment, plan: Batch, progress: Progress) -> tuple[Progress, list[TaskReport]]:
    reports = run_batch(env, plan, progress.versions)
    return progress_after(progress, plan, task_names(env.layout), reports), reports


def test_the_second_round_sees_the_state_of_the_first(app: App, make_env: MakeEnv, send: Send, read: Read) -> None:
    env = make_env(app, caching=False)
    send("n", "1", "2", "3")
    progress, reports = run(env, batch(1, 0, 2), Progress())
    assert [(report.version, report.round) for report in reports] == [(1, 0), (1, 1)]
    assert progress.versions["n/0"].commit == reports[1].commit
    progress, _ = run(env, batch(2, 2, 3), progress)
    assert read("counts") == [b"1", b"2", b"3"]
    assert [value.split(b",")[0] for value in read("out")] == [b"[null", b"[null", b"[2"]


def test_a_batch_that_is_done_is_replayed(app: App, make_env: MakeEnv, send: Send, read: Read) -> None:
    env = make_env(app, caching=False)
    send("n", "1", "2")
    progress, _ = run(env, batch(1, 0, 2), Progress())
    published = read("out"), read("counts")
    again, second = run(make_env(app, caching=False), batch(1, 0, 2), Progress())
    assert again == progress
    assert [report.replayed for report in second] == [True, True]
    assert (read("out"), read("counts")) == published


def test_a_crash_between_two_rounds_loses_nothing(
    app: App, make_env: MakeEnv, send: Send, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = make_env(app, caching=False)
    send("n", "1", "2")
    whole = TaskRun.process

    def failing(self: TaskRun) -> None:
        if self._stage.round == 1:
            raise OSError("killed here")
        whole(self)

    with monkeypatch.context() as patch:
        patch.setattr(TaskRun, "process", failing)
        with pytest.raises(OSError, match="killed here"):
            run(env, batch(1, 0, 2), Progress())
    published = read("out")
    assert (len(published), read("counts")) == (2, [])
    progress, reports = run(make_env(app, caching=False), batch(1, 0, 2), Progress())
    assert [report.replayed for report in reports] == [True, False]
    assert (read("out"), read("counts")) == (published, [b"1", b"2"])
    assert progress.versions["n/0"] == StateVersion(1, reports[1].commit)


def test_a_round_without_records_keeps_the_version_of_the_previous_one(app: App, make_env: MakeEnv, send: Send) -> None:
    env = make_env(app)
    send("n", "0")
    progress, reports = run(env, batch(1, 0, 1), Progress())
    assert reports[1].commit == ""
    assert progress.versions["n/0"].commit == reports[0].commit
    send("n", "2")
    progress, _ = run(env, batch(2, 1, 2), progress)
    report, _ = run_task(env, TaskInput(1, 3, 0, progress.versions["n/0"]))
    assert report.version == 2


def test_records_of_a_task_keep_their_order_over_rounds(make_env: MakeEnv, send: Send, read: Read) -> None:
    """The second round sends a record with a smaller timestamp; it stays after the records of the first round."""
    app = App("test")
    numbers = app.stream("n", value=int)
    both = numbers.join(
        numbers.repartition(name="again"), lambda left, right: f"{left}{right}", within=join_window("10 ms")
    )
    both.group_by(lambda _pair: "all").reduce(lambda pairs, pair: f"{pairs} {pair}").to_stream().to("out")
    env = make_env(app)
    progress = Progress()
    for number, (value, timestamp) in enumerate([("1", 5), ("2", 0)], 1):
        send("n", value, time=timestamp)
        progress, _ = run(env, batch(number, number - 1, number), progress)
    assert read("out")[-1] == b'"11 21 22 12"'
