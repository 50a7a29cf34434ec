"""When batches run in seats; what a seat does is replaced, since only the decision is tested here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from millstream import Config
from millstream.batch.assembly import TaskSettings
from millstream.batch.batch import Batch
from millstream.plan.parts import PlanPart
from millstream.spark import seating
from millstream.spark.header import AppHeader
from millstream.spark.placement import Slot
from millstream.spark.seating import Seating
from millstream.spark.seats import SeatsLostError
from millstream.task.policy import Policies
from millstream.task.task_input import Range

SMALL, LARGE = 10, 11
HEADER = AppHeader(
    tasks=TaskSettings(app="app", state_dir="", policies=Policies.of("app", Config())),
    reference=None,
    pickled=b"",
    paths=(),
    part=PlanPart(),
    fingerprint="",
    partitions=(2,),
    slots=((Slot("h1", (0,)), Slot("h2", (1,))),),
    broker="",
)


class Context:
    """Stands for a Spark context: its configuration."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.get = settings.get

    def getConf(self) -> Context:  # noqa: N802 - as PySpark calls it
        return self


class Taken:
    """Stands for seats: they run batches until they are lost or closed."""

    lost = False
    taken: int = 0

    def __init__(self, *_: Any) -> None:
        Taken.taken += 1
        self.are_left = False

    def run(self, *_: Any) -> list[Any]:
        if Taken.lost:
            raise SeatsLostError("lost")
        return []

    def close(self) -> None:
        self.are_left = True


@pytest.fixture(autouse=True)
def _taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seating, "Seats", Taken)
    monkeypatch.setattr(seating, "_apps", set())
    Taken.lost, Taken.taken = False, 0


def new_seating(**settings: str) -> Seating:
    context: Any = Context({name.replace("_", "."): value for name, value in settings.items()})
    return Seating(context, SMALL)


def is_seated(seating: Seating, records: int, header: AppHeader = HEADER) -> bool:
    ranges = (Range("topic", 0, 0, records),)
    return seating.run(header, Batch(number=1, ranges=ranges, wall_time=0), {}) is not None


def test_seats_are_taken_after_three_small_batches_and_left_before_a_large_one() -> None:
    own = new_seating()
    assert [is_seated(own, SMALL) for _ in range(4)] == [False, False, True, True]
    assert not is_seated(own, LARGE)
    assert [is_seated(own, SMALL) for _ in range(3)] == [False, False, True]
    assert Taken.taken == 2


def test_after_lost_seats_batches_are_jobs_for_a_while_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("millstream.spark.seating.time.monotonic", lambda: now)
    own = new_seating()
    Taken.lost = True
    assert not any(is_seated(own, SMALL) for _ in range(5))
    assert Taken.taken == 1
    now += 5.1
    assert not any(is_seated(own, SMALL) for _ in range(5))
    assert Taken.taken == 2, "tried again once"
    now += 5.1
    assert not is_seated(own, SMALL)
    assert Taken.taken == 2, "the second pause is longer"
    now, Taken.lost = now + 5.1, False
    assert is_seated(own, SMALL)


def test_seats_that_others_needed_are_taken_again_later() -> None:
    own = new_seating()
    assert [is_seated(own, SMALL) for _ in range(3)] == [False, False, True]
    own._seats.close()  # type: ignore[union-attr]
    assert [is_seated(own, SMALL) for _ in range(3)] == [False, False, True]


def test_two_apps_of_a_process_take_no_seats_from_each_other() -> None:
    own, other = new_seating(), new_seating()
    assert not any(is_seated(own, SMALL) for _ in range(4))
    other.close()
    assert is_seated(own, SMALL)


def test_records_that_spark_would_encrypt_do_not_go_through_seats() -> None:
    own = new_seating(spark_network_crypto_enabled="true")
    assert not any(is_seated(own, SMALL) for _ in range(4))


def test_very_many_seats_and_slots_without_a_host_run_as_jobs() -> None:
    own = new_seating()
    many = msgspec.structs.replace(HEADER, slots=(tuple(Slot("h", (task,)) for task in range(33)),))
    anywhere = msgspec.structs.replace(HEADER, slots=((Slot("", (0,)),),))
    assert not any(is_seated(own, SMALL, header) for header in (many, anywhere) for _ in range(4))
