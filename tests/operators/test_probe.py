"""A probe measures steps without those that they call, and old results decay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millstream.operators.probe import Measured, Probe
from millstream.plan.node import Node
from millstream.plan.stateless import Merge


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advance the clock by a second with each reading."""
    clock: Iterator[float] = iter(range(1000))
    monkeypatch.setattr("millstream.operators.probe.time.perf_counter", lambda: float(next(clock)))


@pytest.mark.usefixtures("ticks")
def test_the_time_of_a_step_excludes_the_steps_that_it_calls_even_if_they_fail() -> None:
    def node(name: str) -> Node:
        return Merge(sources=(), name=name)

    probe = Probe()
    inner = probe.timed(node("inner"), lambda: 1 / 0)

    def outer_work() -> None:
        with pytest.raises(ZeroDivisionError):
            inner()

    probe.timed(node("outer"), outer_work)()
    assert probe.result(0).seconds == {"inner": 1.0, "outer": 2.0}


def test_old_results_decay_and_disappear() -> None:
    sums = Measured(records_in=10, edges={"a>b": 10.0, "gone>b": 1.0}, seconds={"b": 1.0})
    for _ in range(200):
        sums = sums.followed_by(Measured(records_in=10, edges={"a>b": 5.0}, seconds={"b": 2.0}))
    assert sums.edges["a>b"] / sums.records_in == pytest.approx(0.5, rel=1e-3)
    assert "gone>b" not in sums.edges
