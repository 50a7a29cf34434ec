"""Long chains of steps run and are drawn; longer ones are refused instead of failing somewhere inside."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from millstream import App, Stream, Table
from millstream.errors import DefinitionError
from millstream.plan.validate import MAX_STEPS
from millstream.testing import TestDriver


@pytest.fixture(autouse=True)
def _limit() -> Iterator[None]:
    before = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(before)


def chain(steps: int, *, of_table: bool = False) -> App:
    app = App("deep")
    handle: Stream[str, int] | Table[str, int] = app.table("in", value=int) if of_table else app.stream("in", value=int)
    for _ in range(steps):
        handle = handle.map_values(lambda n: n + 1)
    (handle.to_stream() if isinstance(handle, Table) else handle).to("out")
    return app


@pytest.mark.parametrize("of_table", [False, True])
def test_a_long_chain_runs(of_table: bool) -> None:
    with TestDriver(chain(MAX_STEPS - 10, of_table=of_table)) as driver:
        driver.topic("in").pipe(1, 2, key="k")
        assert driver.topic("out").read_values()[-1] == MAX_STEPS - 8


def test_a_long_chain_is_drawn() -> None:
    svg = chain(MAX_STEPS - 10)._repr_svg_()
    assert svg is not None
    assert svg.count("map_values") >= MAX_STEPS - 10


@pytest.mark.parametrize("steps", [MAX_STEPS, 20_000])
def test_a_longer_chain_is_refused(steps: int) -> None:
    app = chain(steps)
    with pytest.raises(DefinitionError, match=r"a chain of [0-9,]+ steps is too long; at most 500 are possible"):
        _ = app.plan
