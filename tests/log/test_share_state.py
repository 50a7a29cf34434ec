"""The runs of a share group behave like a table with one row per record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from millstream.broker import AnswerKind
from millstream.log.share_state import ACQUIRED, DONE, MAX_IN_FLIGHT, WAITING, ShareState

MEMBERS = ("a", "b")
LOCK, DELAY, END = 10, 5, 40


@dataclass
class Row:
    """What is known of one record."""

    state: int = WAITING
    deliveries: int = 0
    until: int = 0
    member: str = ""


class Model:
    """The same group with a row per record."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.dead = 0
        self.expired = 0

    def answer(self, first: int, last: int, kind: AnswerKind, member: str, now: int, until: int) -> set[int]:
        lost = set()
        for offset in range(first, last + 1):
            row = self.rows.get(offset)
            if row is None or row.state != ACQUIRED or row.member != member or row.until <= now:
                lost.add(offset)
            elif kind == "renew":
                row.until = until
            elif kind in ("accept", "reject"):
                row.state = DONE
                self.dead += kind == "reject"
            else:
                row.state, row.until, row.member = WAITING, until if kind == "release" else 0, ""
                row.deliveries -= kind == "unread"
        return lost

    def release_ended(self, now: int, dead: set[str]) -> None:
        for row in self.rows.values():
            if row.state == ACQUIRED and (row.until <= now or row.member in dead):
                row.state, row.until, row.member = WAITING, 0, ""

    def delete_before(self, begin: int) -> None:
        started = max(self.rows, default=-1) + 1
        for offset, row in self.rows.items():
            if offset < begin and row.state == WAITING:
                row.state = DONE
                self.expired += 1
        for offset in range(started, begin):
            self.rows[offset] = Row(DONE)
            self.expired += 1

    def acquire(self, end: int, limit: int, member: str, now: int, until: int) -> dict[int, int]:
        known = sorted(o for o, row in self.rows.items() if row.state == WAITING and row.until <= now)
        first = max(self.rows, default=-1) + 1
        chosen = [*known, *range(first, end)][:limit]
        for offset in chosen:
            row = self.rows.setdefault(offset, Row())
            row.state, row.deliveries, row.until, row.member = ACQUIRED, row.deliveries + 1, until, member
        return {offset: self.rows[offset].deliveries for offset in chosen}


offsets = st.integers(0, END - 1)
members = st.sampled_from(MEMBERS)
steps = st.one_of(
    st.tuples(st.just("acquire"), members, st.integers(1, 8)),
    st.tuples(st.just("answer"), members, offsets, st.integers(0, 6), st.sampled_from(get_args(AnswerKind))),
    st.tuples(st.just("wait"), st.integers(1, LOCK)),
    st.tuples(st.just("die"), members),
    st.tuples(st.just("delete"), st.integers(0, 12)),
)


@given(st.lists(steps, max_size=40))
def test_runs_are_a_table_of_records(script: list[tuple[object, ...]]) -> None:
    state, model, now = ShareState("topic", 0), Model(), 0
    for step in script:
        match step:
            case ("acquire", str(member), int(limit)):
                runs = state.acquire(END, limit, member, now, now + LOCK)
                taken = {offset: run.deliveries for run in runs for offset in range(run.first, run.last + 1)}
                assert taken == model.acquire(END, limit, member, now, now + LOCK)
            case ("answer", str(member), int(first), int(size), kind):
                until = now + (LOCK if kind == "renew" else DELAY)
                lost = state.answer(first, first + size, kind, member, now, until)  # type: ignore[arg-type]
                refused = {offset for low, high in lost for offset in range(low, high + 1)}
                assert refused == model.answer(first, first + size, kind, member, now, until)  # type: ignore[arg-type]
            case ("wait", int(time)):
                now += time
                state.release_ended(now, ())
                model.release_ended(now, set())
            case ("die", str(member)):
                state.release_ended(now, {member})
                model.release_ended(now, {member})
            case ("delete", int(begin)):
                state.delete_before(begin)
                model.delete_before(begin)
        state.advance()
        check(state, model)


def check(state: ShareState, model: Model) -> None:
    rows = {offset: row for offset, row in model.rows.items() if offset >= state.start}
    assert all(row.state == DONE for offset, row in model.rows.items() if offset < state.start)
    assert (state.dead, state.expired) == (model.dead, model.expired)
    covered = [offset for run in state.runs for offset in range(run.first, run.last + 1)]
    assert covered == list(range(state.start, state.next_offset))
    for run in state.runs:
        for offset in range(run.first, run.last + 1):
            row = rows.pop(offset)
            assert row.state == run.state
            if row.state != DONE:
                assert (row.deliveries, row.until, row.member) == (run.deliveries, run.until, run.member)
    assert not rows
    assert not state.runs or state.runs[0].state != DONE


def test_a_group_locks_a_limited_number_of_records() -> None:
    state = ShareState("topic", 0)
    assert sum(map(len, state.acquire(10 * MAX_IN_FLIGHT, 10 * MAX_IN_FLIGHT, "a", 0, LOCK))) == MAX_IN_FLIGHT
    assert state.acquire(10 * MAX_IN_FLIGHT, 1, "b", 0, LOCK) == []
    assert not state.can_acquire(10 * MAX_IN_FLIGHT, 0)
    state.answer(0, 9, "release", "a", 0, DELAY)
    assert sum(map(len, state.acquire(10 * MAX_IN_FLIGHT, 99, "b", 0, LOCK))) == 10
    assert not state.can_acquire(10 * MAX_IN_FLIGHT, DELAY)  # the delay has ended, and there is still no room
    state.answer(10, 19, "accept", "a", 0, 0)
    assert state.can_acquire(10 * MAX_IN_FLIGHT, DELAY)
    assert sum(map(len, state.acquire(10 * MAX_IN_FLIGHT, 99, "b", 0, LOCK))) == 10
