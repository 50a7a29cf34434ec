import uuid
from collections.abc import Callable

import pytest

from millstream import App
from millstream.errors import ProcessingError, StateError
from millstream.state.task import StateVersion
from millstream.task.environment import TaskEnvironment
from millstream.task.runner import run_task
from millstream.task.task_input import Range, TaskInput

MakeEnv = Callable[..., TaskEnvironment]
Send = Callable[..., None]
Read = Callable[[str], list[bytes]]


def task_input(batch: int, stop: int, start: int = 0, expected: StateVersion | None = None) -> TaskInput:
    return TaskInput(0, batch, 0, expected or StateVersion(), (Range("n", 0, start, stop),))


def test_a_batch_that_runs_again_is_replayed_and_not_processed(make_env: MakeEnv, send: Send, read: Read) -> None:
    """The function returns another result for each call, so that a second call would be visible."""
    app = App("test")
    app.stream("n").map_values(lambda _: uuid.uuid4().hex).to("out")
    env = make_env(app)
    send("n", "1", "2")
    first, _ = run_task(env, task_input(1, 2))
    published = read("out")
    again, _ = run_task(make_env(app), task_input(1, 2))
    assert (first.replayed, again.replayed) == (False, True)
    assert (again.commit, again.records_in, again.records_out) == (first.commit, 2, 2)
    assert read("out") == published
    assert len(published) == 2


def test_blocks_for_another_stage_are_the_same_when_replayed(make_env: MakeEnv, send: Send) -> None:
    app = App("test")
    app.stream("n").group_by(lambda _: uuid.uuid4().hex).count()
    env = make_env(app)
    send("n", "1", "2", "3")
    _, first = run_task(env, task_input(1, 3))
    _, again = run_task(make_env(app), task_input(1, 3))
    assert [block.edge for block in first] == ["n.count-repartition"]
    assert again == first


def test_results_not_published_before_a_crash_are_published_when_the_batch_runs_again(
    make_env: MakeEnv, send: Send, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App("test")
    app.stream("n").to("out")
    env = make_env(app)
    send("n", "1")
    with monkeypatch.context() as patch:
        patch.setattr(env.broker, "append_once", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run_task(env, task_input(1, 1))
    assert read("out") == []
    report, _ = run_task(env, task_input(1, 1))
    assert (report.replayed, read("out")) == (True, [b"1"])


def test_batches_follow_each_other(make_env: MakeEnv, send: Send, read: Read) -> None:
    app = App("test")
    app.stream("n").group_by_key().count(name="seen").to_stream().to("out")
    env = make_env(app, caching=False)
    send("n", "1", "2", "3")
    first, _ = run_task(env, task_input(1, 2))
    second, _ = run_task(env, task_input(5, 3, 2, StateVersion(first.version, first.commit)))
    assert read("out") == [b"1", b"2", b"3"]
    assert (second.version, second.rows) == (5, {"seen": 1})


@pytest.mark.parametrize("expected", [StateVersion(1, "another"), StateVersion(0, ""), StateVersion(3, "later")])
def test_state_of_another_history_is_rejected(make_env: MakeEnv, send: Send, expected: StateVersion) -> None:
    app = App("test")
    app.stream("n").group_by_key().count()
    env = make_env(app)
    send("n", "1", "2")
    run_task(env, task_input(1, 1))
    with pytest.raises(
        StateError, match=r"is at batch 1, but the last committed batch is \d; it was copied, restored or deleted"
    ):
        run_task(env, task_input(4, 2, 1, expected))


def test_a_batch_that_is_requested_after_it_was_marked_as_done_is_not_processed_again(
    make_env: MakeEnv, send: Send
) -> None:
    app = App("test")
    app.stream("n").group_by_key().count(name="seen").to_stream().to("out")
    env = make_env(app)
    send("n", "1")
    first, _ = run_task(env, task_input(1, 1))
    again, _ = run_task(env, task_input(1, 1, 0, StateVersion(first.version, first.commit)))
    assert (again.replayed, again.commit) == (True, first.commit)


def test_a_batch_that_fails_changes_nothing(make_env: MakeEnv, send: Send, read: Read) -> None:
    fail = True

    def sometimes(value: int) -> int:
        if fail and value == 3:
            raise RuntimeError("not now")
        return value

    app = App("test")
    app.stream("n", value=int).peek(sometimes).group_by_key().count(name="seen").to_stream().to("out")
    env = make_env(app, caching=False)
    send("n", "1", "2", "3")
    with pytest.raises(ProcessingError, match=r"node 'n.peek' failed on record n\[0\]@2"):
        run_task(env, task_input(1, 3))
    assert read("out") == []
    fail = False
    report, _ = run_task(env, task_input(1, 3))
    assert (report.replayed, read("out")) == (False, [b"1", b"2", b"3"])


def test_a_task_without_input_does_not_open_its_state(make_env: MakeEnv) -> None:
    app = App("test")
    app.stream("n").group_by_key().count()
    env = make_env(app)
    report, blocks = run_task(env, TaskInput(0, 7, 0, StateVersion(3, "c")))
    assert (report.version, report.commit, blocks) == (3, "c", [])
    assert not env.state_dir.exists()


def test_stream_time_continues_from_the_last_batch(make_env: MakeEnv, send: Send) -> None:
    app = App("test")
    app.stream("n", value=int, timestamp=lambda n: n).to("out")
    env = make_env(app)
    send("n", "50", "20")
    first, _ = run_task(env, task_input(1, 1))
    second, _ = run_task(env, task_input(2, 2, 1, StateVersion(first.version, first.commit)))
    assert (first.stream_time, second.stream_time) == (50, 50)


def test_a_topic_that_may_not_be_created_is_reported(make_env: MakeEnv, send: Send) -> None:
    app = App("test")
    app.stream("n").to(lambda _: "unknown")
    env = make_env(app)
    env.new_topic = None
    send("n", "1")
    with pytest.raises(ProcessingError, match=r"node 'n.sink' failed on record n\[0\]@0 .*there is no topic 'unknown'"):
        run_task(env, task_input(1, 1))
