"""Schedules by themselves: what is called when, and what is stored."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from millstream.processors import Clock, Punctuation
from millstream.state.timers import Timers
from millstream.windows import FOREVER

Called = list[tuple[str, int]]


def wanted(name: str = "tick", every: int = 10, on: Clock = "stream", start: int | None = None) -> Punctuation:
    return Punctuation(name, name, every, on, start)


def opened(stored: bytes | None, *declared: Punctuation, wall_time: int = 0) -> tuple[Timers, Called]:
    called: Called = []
    timers = Timers(stored, wall_time)
    timers.attach("node", lambda method, now: called.append((method, now)), declared)
    return timers, called


@given(st.integers(1, 50), st.integers(0, 200), st.lists(st.integers(0, 100), max_size=30))
def test_calls_stay_on_the_grid_and_are_made_at_most_once_each_time(every: int, start: int, steps: list[int]) -> None:
    timers, called = opened(None, wanted(every=every, start=start))
    expected: list[int] = []
    before = -1
    for now in accumulate(steps):
        timers.fire("stream", now)
        if any(before < point <= now for point in range(start, now + 1, every)):
            expected.append(now)
        before = now
        assert timers.stream_due > now
        assert (timers.stream_due - start) % every == 0
    assert [time for _, time in called] == expected


def test_what_is_stored_goes_on_where_it_stood() -> None:
    timers, called = opened(None, wanted(on="wall"), wall_time=100)
    assert timers.wall_due == 110
    stored = timers.changes()
    timers, called = opened(stored, wanted(on="wall"), wall_time=105)
    assert (timers.wall_due, timers.changes()) == (110, None)
    timers.fire("wall", 137)
    assert called == [("tick", 137)]
    assert timers.next_wall_times() == {"node": 140}
    assert timers.changes() is not None


def test_a_timer_whose_declaration_changes_begins_anew_and_one_that_is_gone_is_forgotten() -> None:
    stored = opened(None, wanted("a", on="wall"), wanted("b", on="wall"))[0].changes()
    timers, _ = opened(stored, wanted("a", 7, on="wall"), wall_time=50)
    assert timers.active("node") == ("a",)
    assert timers.wall_due == 57


def test_the_timers_of_a_node_that_is_gone_are_neither_called_nor_kept() -> None:
    stored = opened(None, wanted(on="wall"))[0].changes()
    timers = Timers(stored, 0)
    timers.fire("wall", 1_000)
    assert (timers.next_wall_times(), timers.wall_due) == ({}, FOREVER)
    assert timers.changes() is not None


def test_cancelled_is_cancelled_until_scheduled_again() -> None:
    timers, called = opened(None, wanted())
    assert timers.cancel("node", "tick")
    assert not timers.cancel("node", "tick")
    timers.fire("stream", 5)
    timers, called = opened(timers.changes(), wanted())
    timers.fire("stream", 6)
    assert (called, timers.active("node")) == ([], ())
    timers.schedule("node", wanted())
    timers.schedule("node", wanted())
    timers.fire("stream", 7)
    assert called == [("tick", 7)]


def test_a_timer_that_begins_itself_anew_is_called_again_the_next_time() -> None:
    called: list[int] = []
    timers = Timers(None, 0)

    def again(_method: str, now: int) -> None:
        called.append(now)
        timers.cancel("node", "tick")
        timers.schedule("node", wanted())

    timers.attach("node", again, (wanted(),))
    timers.fire("stream", 3)
    timers.fire("stream", 4)
    assert called == [3, 4]


def test_the_earliest_is_called_first_and_then_the_one_that_was_scheduled_first() -> None:
    timers, called = opened(None, wanted("c", start=2), wanted("a", start=1), wanted("b", start=2))
    timers.fire("stream", 5)
    assert [name for name, _ in called] == ["a", "c", "b"]


def test_timers_of_one_time_keep_their_order_over_batches() -> None:
    declared = wanted("first", every=5), wanted("second", every=7)
    timers, _ = opened(None, *declared)
    for now in (0, 29, 30):  # by then the second is waiting for 35 already, and the first joins it
        timers.fire("stream", now)
    timers, called = opened(timers.changes(), *declared)
    timers.fire("stream", 35)
    assert called == [("second", 35), ("first", 35)]
