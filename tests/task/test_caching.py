"""Caching: what a table passes on once per key and batch, and what that must not change."""

from collections.abc import Callable

import pytest

from millstream import App
from millstream.state.task import Version
from millstream.task.runner import run_task
from millstream.task.work import Range, Work
from millstream.task.worksite import Worksite

Site = Callable[..., Worksite]
Send = Callable[..., None]
Read = Callable[[str], list[bytes]]


def run_all(place: Worksite, stop: int) -> None:
    run_task(place, Work(0, 1, 0, Version(), (Range("n", 0, 0, stop),)))


@pytest.mark.parametrize(("caching", "expected"), [(False, [b"1", b"2", b"1", b"3"]), (True, [b"3", b"1"])])
def test_off_passes_every_update_on_and_on_the_last_of_each_key(
    site: Site, send: Send, read: Read, caching: bool, expected: list[bytes]
) -> None:
    app = App("test")
    app.stream("n", value=int).group_by_key().count().to_stream().to("out")
    place = site(app, caching=caching)
    send("n", "5", "5")
    send("n", "5", key="other")
    send("n", "5")
    run_all(place, 4)
    assert read("out") == expected


def test_a_row_that_comes_and_goes_within_a_batch_ends_as_a_tombstone(site: Site, send: Send, read: Read) -> None:
    app = App("test")
    app.stream("n", value=int).group_by_key().reduce(lambda _, n: n or None).to_stream().to("out")
    place = site(app, caching=True)
    send("n", "1", "0")
    run_all(place, 2)
    assert read("out") == [None]


def test_tables_in_a_row_are_passed_on_in_the_order_of_the_plan(site: Site, send: Send, read: Read) -> None:
    app = App("test")
    first = app.stream("n", value=int).group_by_key().reduce(lambda one, two: one + two, name="sum")
    first.to_stream().group_by_key().count(name="updates").to_stream().to("out")
    place = site(app, caching=True)
    send("n", "1", "2", "3")
    run_all(place, 3)
    assert read("out") == [b"1"]


def test_a_join_sees_the_newest_row_whether_it_was_passed_on_or_not(site: Site, send: Send, read: Read) -> None:
    app = App("test")
    rows = app.stream("n", value=int).to_table(name="last")
    app.stream("ask", value=int).join(rows, lambda _, row: row).to("out")
    place = site(app, caching=True)
    send("n", "1", "2")
    send("ask", "0")
    run_task(place, Work(0, 1, 0, Version(), (Range("n", 0, 0, 2), Range("ask", 0, 0, 1))))
    assert read("out") == [b"2"]
