"""Timers: when methods are called, and which schedules are stored."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from millstream.processors import Clock, Punctuation
from millstream.state.timers import Timers
from millstream.windows import FOREVER

Called = list[tuple[str, int]]


def punctuation(name: str = "tick", every: int = 10, on: Clock = "stream", start: int | None = None) -> Punctuation:
    return Punctuation(name, name, every, on, start)


def open_timers(stored: bytes | None, *declared: Punctuation, wall_time: int = 0) -> tuple[Timers, Called]:
    called: Called = []
    timers = Timers(stored, wall_time)
    timers.attach("node", lambda method, now: called.append((method, now)), declared)
    return timers, called


@given(st.integers(1, 50), st.integers(0, 200), st.lists(st.integers(0, 100), max_size=30))
def test_calls_are_at_multiples_of_the_interval_and_at_most_one_each_time(
    every: int, start: int, steps: list[int]
) -> None:
    timers, called = open_timers(None, punctuation(every=every, start=start))
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


def test_stored_timers_continue() -> None:
    timers, called = open_timers(None, punctuation(on="wall"), wall_time=100)
    assert timers.wall_due == 110
    stored = timers.changes()
    timers, called = open_timers(stored, punctuation(on="wall"), wall_time=105)
    assert (timers.wall_due, timers.changes()) == (110, None)
    timers.fire("wall", 137)
    assert called == [("tick", 137)]
    assert timers.next_wall_times() == {"node": 140}
    assert timers.changes() is not None


def test_a_timer_with_a_new_declaration_restarts_and_one_without_declaration_is_removed() -> None:
    stored = open_timers(None, punctuation("a", on="wall"), punctuation("b", on="wall"))[0].changes()
    timers, _ = open_timers(stored, punctuation("a", 7, on="wall"), wall_time=50)
    assert timers.active("node") == ("a",)
    assert timers.wall_due == 57


def test_the_timers_of_a_removed_node_are_neither_called_nor_kept() -> None:
    stored = open_timers(None, punctuation(on="wall"))[0].changes()
    timers = Timers(stored, 0)
    timers.fire("wall", 1_000)
    assert (timers.next_wall_times(), timers.wall_due) == ({}, FOREVER)
    assert timers.changes() is not None


def test_a_cancelled_timer_is_not_called_until_it_is_scheduled_again() -> None:
    timers, called = open_timers(None, punctuation())
    assert timers.cancel("node", "tick")
    assert not timers.cancel("node", "tick")
    timers.fire("stream", 5)
    timers, called = open_timers(timers.changes(), punctuation())
    timers.fire("stream", 6)
    assert (called, timers.active("node")) == ([], ())
    timers.schedule("node", punctuation())
    timers.schedule("node", punctuation())
    timers.fire("stream", 7)
    assert called == [("tick", 7)]


def test_a_timer_that_restarts_itself_is_not_called_again_at_the_same_time() -> None:
    called: list[int] = []
    timers = Timers(None, 0)

    def again(_method: str, now: int) -> None:
        called.append(now)
        timers.cancel("node", "tick")
        timers.schedule("node", punctuation())

    timers.attach("node", again, (punctuation(),))
    timers.fire("stream", 3)
    timers.fire("stream", 4)
    assert called == [3, 4]


def test_timers_are_called_in_order_of_their_time_then_of_scheduling() -> None:
    timers, called = open_timers(None, punctuation("c", start=2), punctuation("a", start=1), punctuation("b", start=2))
    timers.fire("stream", 5)
    assert [name for name, _ in called] == ["a", "c", "b"]


def test_timers_with_the_same_time_keep_their_order_across_batches() -> None:
    declared = punctuation("first", every=5), punctuation("second", every=7)
    timers, _ = open_timers(None, *declared)
    for now in (0, 29, 30):  # now the second is already due at 35, and the first becomes due at 35 too
        timers.fire("stream", now)
    timers, called = open_timers(timers.changes(), *declared)
    timers.fire("stream", 35)
    assert called == [("second", 35), ("first", 35)]
