"""Caching: a table forwards each key once per batch, without other effects."""

from collections.abc import Callable

import pytest

from millstream import App, session, tumbling
from millstream.dsl.grouped import GroupedStream
from millstream.dsl.table import Table
from millstream.state.task import StateVersion
from millstream.task.environment import TaskEnvironment
from millstream.task.runner import run_task
from millstream.task.task_input import Range, TaskInput
from millstream.testing import TestDriver

MakeEnv = Callable[..., TaskEnvironment]
Send = Callable[..., None]
Read = Callable[[str], list[bytes]]


def run_all(env: TaskEnvironment, stop: int) -> None:
    run_task(env, TaskInput(0, 1, 0, StateVersion(), (Range("n", 0, 0, stop),)))


@pytest.mark.parametrize(("caching", "expected"), [(False, [b"1", b"2", b"1", b"3"]), (True, [b"3", b"1"])])
def test_without_caching_every_update_is_forwarded_with_it_the_last_of_each_key(
    make_env: MakeEnv, send: Send, read: Read, caching: bool, expected: list[bytes]
) -> None:
    app = App("test")
    app.stream("n", value=int).group_by_key().count().to_stream().to("out")
    env = make_env(app, caching=caching)
    send("n", "5", "5")
    send("n", "5", key="other")
    send("n", "5")
    run_all(env, 4)
    assert read("out") == expected


def test_a_row_added_and_deleted_within_a_batch_ends_as_a_tombstone(make_env: MakeEnv, send: Send, read: Read) -> None:
    app = App("test")
    app.stream("n", value=int).group_by_key().reduce(lambda _, n: n or None).to_stream().to("out")
    env = make_env(app, caching=True)
    send("n", "1", "0")
    run_all(env, 2)
    assert read("out") == [None]


def test_sessions_that_are_merged_within_a_batch_are_not_forwarded(make_env: MakeEnv, send: Send, read: Read) -> None:
    app = App("test")
    windows = app.stream("n", value=int).group_by_key().windowed_by(session(gap="1 min", grace="1 min"))
    windows.count(name="sessions").to_stream().to("out")
    env = make_env(app, caching=True)
    for time in (0, 90_000, 50_000):
        send("n", "1", time=time)
    run_all(env, 3)
    assert read("out") == [b"3"]


def test_tables_are_flushed_in_the_order_of_the_plan(make_env: MakeEnv, send: Send, read: Read) -> None:
    app = App("test")
    first = app.stream("n", value=int).group_by_key().reduce(lambda left, right: left + right, name="sum")
    first.to_stream().group_by_key().count(name="updates").to_stream().to("out")
    env = make_env(app, caching=True)
    send("n", "1", "2", "3")
    run_all(env, 3)
    assert read("out") == [b"1"]


def test_a_join_sees_the_newest_row_even_if_it_was_not_forwarded_yet(make_env: MakeEnv, send: Send, read: Read) -> None:
    app = App("test")
    rows = app.stream("n", value=int).to_table(name="last")
    app.stream("ask", value=int).join(rows, lambda _, row: row).to("out")
    env = make_env(app, caching=True)
    send("n", "1", "2")
    send("ask", "0")
    run_task(env, TaskInput(0, 1, 0, StateVersion(), (Range("n", 0, 0, 2), Range("ask", 0, 0, 1))))
    assert read("out") == [b"2"]


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda grouped: grouped.count(), (("h", b"2"),)),
        (lambda grouped: grouped.windowed_by(tumbling("1 s")).count(), (("h", b"2"),)),
        (lambda grouped: grouped.windowed_by(session(gap="1 s")).count(), ()),
    ],
)
def test_deferred_updates_have_the_headers_of_the_last_update(
    write: Callable[[GroupedStream], Table], expected: tuple[tuple[str, bytes], ...]
) -> None:
    app = App("test")
    write(app.stream("n", value=int).group_by_key()).to_stream().map(lambda _, count: ("k", count)).to("out")
    with TestDriver(app, caching=True) as driver:
        for header in (b"1", b"2"):
            driver.topic("n").pipe(1, key="k", headers={"h": header})
        assert driver.topic("out").read()[-1].headers == expected
        driver.topic("n").pipe(1, key="k")
        assert driver.topic("out").read()[-1].headers == ()
