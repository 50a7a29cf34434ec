"""The kit that every sink has to pass: what the loop may do to a sink, and what the target must contain afterwards.

@pytest.mark.parametrize("case", SINK_CASES)
def test_the_kit(case, tmp_path):
    check_sink(case, lambda: MyTarget(...), tmp_path)
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from millstream.connect.protocols import ConnectorContext, Sink, SinkBatch
from millstream.errors import ConnectorError, TargetUnavailableError
from millstream.foundation.object_codec import encode_key
from millstream.records import Record
from millstream.testing.connectors.bench import Bench

Outcome: TypeAlias = Literal["passed", "not applicable"]
Pair: TypeAlias = tuple[Any, Any]


class SinkTarget:
    """What the author of a sink provides: a target that is empty when it is made.

    Keys are text and values are objects such as ``{"n": 1}``.
    """

    is_keyed: ClassVar[bool] = True
    """Whether the target keeps one value per key; otherwise it keeps all."""
    poison: ClassVar[Any] = None
    """A value that the target never accepts, if there is one."""

    def sink(self) -> Sink:
        """Return a new sink that writes to the target."""
        raise NotImplementedError

    def rows(self) -> list[Pair]:
        """Return keys and values in the target; if it keeps all, those of a key in the order of their arrival."""
        raise NotImplementedError

    def outage(self) -> AbstractContextManager[None] | None:
        """Return what makes the target unavailable in a block, or None if that cannot be done."""
        return None


MakeTarget: TypeAlias = Callable[[], SinkTarget]
CHANGES: list[Pair] = [(f"k{n % 4}", {"n": n}) for n in range(10)]


def check_sink(case: str, make: MakeTarget, directory: Path) -> Outcome:
    """Run a case; raise an ``AssertionError`` that says what the sink did wrong."""
    return SINK_CASES[case](make, directory)


def _expected(target: SinkTarget, changes: list[Pair]) -> list[Pair]:
    if not target.is_keyed:
        return changes
    return [(key, value) for key, value in dict(changes).items() if value is not None]


def _check_rows(target: SinkTarget, changes: list[Pair], what: str) -> None:
    """Compare the target with what it must contain; a sink that writes at least once may have rows twice."""
    rows, expected = target.rows(), _expected(target, changes)
    if target.sink().guarantee == "at least once":
        rows, expected = _distinct(rows), _distinct(expected)
    assert _counted(rows) == _counted(expected), f"{what}: the target has {rows!r}, expected {expected!r}"


def _counted(rows: list[Pair]) -> Counter[bytes]:
    return Counter(encode_key([key, value]) for key, value in rows)


def _distinct(rows: list[Pair]) -> list[Pair]:
    return list({encode_key([key, value]): (key, value) for key, value in rows}.values())


def _writes_every_record(make: MakeTarget, directory: Path) -> Outcome:
    target, bench = make(), Bench(directory)
    bench.feed(*CHANGES[:6])
    bench.run_sink(target.sink())
    bench.feed(*CHANGES[6:])
    bench.run_sink(target.sink())
    _check_rows(target, CHANGES, "two runs")
    return "passed"


def _writes_a_batch_once(make: MakeTarget, directory: Path) -> Outcome:
    target = make()
    for _ in range(2):
        writer = target.sink().open(_context(directory))
        for number, changes in enumerate(_batches(), 1):
            for _ in range(2):
                writer.write(_batch(number, changes))
        writer.close()
    if target.is_keyed and target.sink().guarantee != "exactly once":
        return "passed"  # an earlier batch that is written again may bring back its rows, until the later ones follow
    _check_rows(target, CHANGES, "each batch written four times, over two connections")
    return "passed"


def _keeps_the_order_of_a_key(make: MakeTarget, directory: Path) -> Outcome:
    target, bench = make(), Bench(directory, max_batch_records=3)
    bench.feed(*CHANGES)
    bench.run_sink(target.sink())
    rows = target.rows()
    for key in {key for key, _ in CHANGES}:
        numbers = [value["n"] for row_key, value in rows if row_key == key]
        expected = [value["n"] for row_key, value in _expected(target, CHANGES) if row_key == key]
        assert numbers == expected, f"key {key!r} has {numbers}, expected {expected}"
    return "passed"


def _deletes_on_tombstones(make: MakeTarget, directory: Path) -> Outcome:
    target, bench = make(), Bench(directory)
    if not target.is_keyed:
        return "not applicable"
    changes = [*CHANGES, ("k1", None), ("k2", None), ("k2", {"n": 12}), ("never", None)]
    bench.feed(*CHANGES)
    bench.run_sink(target.sink())
    bench.feed(*changes[len(CHANGES) :])
    bench.run_sink(target.sink())
    _check_rows(target, changes, "tombstones")
    return "passed"


def _survives_death_at_each_step(make: MakeTarget, directory: Path) -> Outcome:
    for die_at in range(1, 200):
        target, bench = make(), Bench(directory / str(die_at), max_batch_records=7)
        bench.feed(*CHANGES)
        has_ended = bench.run_sink(target.sink(), die_at=die_at)
        step = bench.steps.passed[-1]
        assert bench.run_sink(target.sink())
        _check_rows(target, CHANGES, f"the process died at step {die_at}, {step}")
        if has_ended:
            return "passed"
    raise AssertionError("the sink does not come to an end")


def _rejects_poison(make: MakeTarget, directory: Path) -> Outcome:
    if make().poison is None:
        return "not applicable"
    for die_at in range(1, 200):
        target, bench = make(), Bench(directory / str(die_at), max_batch_records=100)
        bench.feed(*CHANGES[:5], ("bad", target.poison), *CHANGES[5:])
        has_ended = bench.run_sink(target.sink(), die_at=die_at)
        assert bench.run_sink(target.sink())
        _check_rows(target, CHANGES, f"a poisoned record, and the process died at step {die_at}")
        letters = [(letter.record.key, letter.node) for letter in bench.dead_letters()]
        assert letters == [(b"bad", "sink")], f"died at step {die_at}: the dead letters are {letters!r}"
        if has_ended:
            return "passed"
    raise AssertionError("the sink does not come to an end")


def _waits_for_its_target(make: MakeTarget, directory: Path) -> Outcome:
    target, bench = make(), Bench(directory)
    outage = target.outage()
    if outage is None:
        return "not applicable"
    bench.feed(*CHANGES)
    with outage:
        error = _error_of(bench, target)
        assert isinstance(error, TargetUnavailableError), f"while its target was down the sink raised {error!r}"
    bench.run_sink(target.sink())
    _check_rows(target, CHANGES, "an outage")
    return "passed"


def _tells_lineages_apart(make: MakeTarget, directory: Path) -> Outcome:
    """After a reset, numbers begin again: the sink must write them or refuse them, never skip them."""
    target, bench = make(), Bench(directory)
    bench.feed(*CHANGES)
    bench.run_sink(target.sink())
    bench.reset()
    later = [("k0", {"n": 100}), ("new", {"n": 101})]
    bench.feed(*later)
    error = _error_of(bench, target)
    if error is not None:
        assert error.hint, f"the error {error!r} does not say what to do"
        _check_rows(target, CHANGES, "a refused lineage")
        return "passed"
    _check_rows(target, [*CHANGES, *CHANGES, *later] if not target.is_keyed else [*CHANGES, *later], "a new lineage")
    return "passed"


def _error_of(bench: Bench, target: SinkTarget) -> ConnectorError | None:
    """Run a sink, and return the error that ended the run."""
    try:
        bench.run_sink(target.sink())
    except ConnectorError as error:
        return error
    return None


def _context(directory: Path) -> ConnectorContext:
    return ConnectorContext(
        name="sink",
        app="bench",
        directory=directory / "files",
        stopping=threading.Event(),
        report=lambda _name, _value: None,
    )


def _batches() -> Iterator[list[tuple[int, Pair]]]:
    numbered = list(enumerate(CHANGES))
    for start in range(0, len(numbered), 4):
        yield numbered[start : start + 4]


def _batch(number: int, changes: list[tuple[int, Pair]]) -> SinkBatch:
    records = [Record("changes", 0, offset, key, value, offset) for offset, (key, value) in changes]
    return SinkBatch(lineage="kit", number=number, wall_time=1_700_000_000_000 + number, records=records)


SINK_CASES: dict[str, Callable[[MakeTarget, Path], Outcome]] = {
    "every record": _writes_every_record,
    "same batch twice": _writes_a_batch_once,
    "order by key": _keeps_the_order_of_a_key,
    "tombstones": _deletes_on_tombstones,
    "death at each step": _survives_death_at_each_step,
    "poison": _rejects_poison,
    "outage": _waits_for_its_target,
    "lineage": _tells_lineages_apart,
}
