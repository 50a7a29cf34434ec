"""A probe times steps without those that they call, and forgets what is long ago."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millstream.operators.probe import Measured, Probe
from millstream.plan.node import Node
from millstream.plan.stateless import Merge


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each look at the clock be a second after the one before."""
    clock: Iterator[float] = iter(range(1000))
    monkeypatch.setattr("millstream.operators.probe.time.perf_counter", lambda: float(next(clock)))


@pytest.mark.usefixtures("ticks")
def test_a_step_is_not_charged_for_those_that_it_calls_even_if_they_fail() -> None:
    def node(name: str) -> Node:
        return Merge(sources=(), name=name)

    probe = Probe()
    inner = probe.timed(node("inner"), lambda: 1 / 0)

    def outer_work() -> None:
        with pytest.raises(ZeroDivisionError):
            inner()

    probe.timed(node("outer"), outer_work)()
    assert probe.result(0).seconds == {"inner": 1.0, "outer": 2.0}


def test_what_is_long_ago_counts_less_and_is_forgotten() -> None:
    sums = Measured(records_in=10, edges={"a>b": 10.0, "gone>b": 1.0}, seconds={"b": 1.0})
    for _ in range(200):
        sums = sums.followed_by(Measured(records_in=10, edges={"a>b": 5.0}, seconds={"b": 2.0}))
    assert sums.edges["a>b"] / sums.records_in == pytest.approx(0.5, rel=1e-3)
    assert "gone>b" not in sums.edges
