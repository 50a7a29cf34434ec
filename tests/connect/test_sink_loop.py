"""The loop of sinks: every record once, the same batch after a crash, rejections, outages, lineages, pause."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from millstream.batch import supervisor
from millstream.batch.connector_status import ConnectorStatus, connector_statuses
from millstream.batch.journal import Journal
from millstream.connect.clock import GrowingClock
from millstream.connect.control import pause, restart
from millstream.connect.protocols import ConnectorContext, Guarantee, RecordsRejectedError, Rejected, SinkBatch
from millstream.connect.rejections import RejectionNote
from millstream.connect.running import Connectors
from millstream.connect.sinks import SinkInput, sink_connector
from millstream.connect.transforms import transform_of
from millstream.errors import ConnectorError, DamagedError, ProcessingError
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.serdes import RAW
from millstream.testing.connectors import MemorySink
from millstream.testing.connectors.bench import APP, TOPIC, Bench


def keys_and_values(sink: MemorySink) -> list[tuple[Any, Any]]:
    return sorted((record.key, record.value) for record in sink.records)


def test_every_record_is_written_once_and_numbers_and_times_grow(tmp_path: Path) -> None:
    bench, sink = Bench(tmp_path, max_batch_records=7), MemorySink()
    bench.feed(*((f"k{n}", n) for n in range(20)))
    assert bench.run_sink(sink)
    bench.feed(("k", 99))
    assert bench.run_sink(sink)
    assert keys_and_values(sink) == sorted([*((f"k{n}", n) for n in range(20)), ("k", 99)])
    assert [batch.number for batch in sink.batches] == list(range(1, len(sink.batches) + 1))
    times = [batch.wall_time for batch in sink.batches]
    assert times == sorted(set(times))


class Remembering:
    """Writes each id once, as a database with a marker does; a number below zero is rejected before anything else."""

    guarantee: Guarantee = "exactly once"

    def __init__(self) -> None:
        self.ids: dict[tuple[str, int], list[Any]] = {}

    def open(self, _context: ConnectorContext, /) -> Remembering:
        return self

    def write(self, batch: SinkBatch) -> Sequence[Rejected]:
        rows = [record.value for record in batch.records]
        if (batch.lineage, batch.number) in self.ids:
            assert self.ids[batch.lineage, batch.number] == rows, "the same id means the same records"
            return []
        if refused := [Rejected(record, "is negative") for record in batch.records if record.value < 0]:
            raise RecordsRejectedError(refused)
        self.ids[batch.lineage, batch.number] = rows
        return []

    def close(self) -> None: ...


def test_a_sink_that_dies_at_any_step_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    """Also rejected records: each becomes one dead letter, wherever the process dies."""
    died = 0
    for die_at in range(1, 100):
        bench, sink = Bench(tmp_path / str(die_at), max_batch_records=4), Remembering()
        bench.feed(*((f"k{n}", -n if n % 5 == 4 else n) for n in range(10)))
        has_ended = bench.run_sink(sink, die_at=die_at)
        died += not has_ended
        assert bench.run_sink(sink)
        assert sorted(n for rows in sink.ids.values() for n in rows) == [0, 1, 2, 3, 5, 6, 7, 8], bench.steps.passed
        letters = bench.dead_letters()
        assert sorted(letter.record.value for letter in letters) == [b"-4", b"-9"], f"died at step {die_at}"
        assert {(letter.topic, letter.node, letter.message) for letter in letters} == {(TOPIC, "sink", "is negative")}
        if has_ended:
            break
    assert died > 15


def test_what_cannot_be_decoded_becomes_a_dead_letter(tmp_path: Path) -> None:
    bench, sink = Bench(tmp_path), MemorySink()
    bench.feed(("a", 1))
    bench.feed((b"b", b"{"), key=RAW, value=RAW)
    bench.feed(("c", 3))
    assert bench.run_sink(sink)
    assert keys_and_values(sink) == [("a", 1), ("c", 3)]
    assert [(letter.record.key, letter.record.value) for letter in bench.dead_letters()] == [(b"b", b"{")]


class Refusing(MemorySink):
    """Writes even numbers and returns the others as rejected."""

    def write(self, batch: SinkBatch) -> Sequence[Rejected]:
        super().write(batch)
        return [Rejected(record, "is odd") for record in batch.records if record.value % 2]


@pytest.mark.parametrize(("policy", "letters"), [("dead_letter", [b"1"]), ("skip", [])])
def test_returned_rejections_go_through_the_error_policy(tmp_path: Path, policy: str, letters: list[bytes]) -> None:
    bench = Bench(tmp_path, on_error=policy)
    bench.feed(("a", 1), ("b", 2))
    assert bench.run_sink(Refusing())
    assert [letter.record.value for letter in bench.dead_letters()] == letters


def test_a_rejected_record_of_a_renamed_topic_is_found_in_its_own(tmp_path: Path) -> None:
    bench, sink = Bench(tmp_path), Remembering()
    bench.feed(("a", -1), ("b", 2))
    renamed = transform_of("sink", [{"route": "eu.{topic}"}])
    assert bench.run_sink(sink, transform=renamed)
    assert [(letter.record.value, letter.topic) for letter in bench.dead_letters()] == [(b"-1", TOPIC)]


def test_rejections_that_cannot_be_read_are_not_taken_for_none(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    assert RejectionNote(journal).read(1) == []
    journal.set_note(b"rejected", b"{")
    with pytest.raises(DamagedError):
        RejectionNote(journal).read(1)
    close_environments(tmp_path)


def test_with_the_policy_to_fail_the_sink_stops_at_the_record_and_writes_nothing_of_the_batch(tmp_path: Path) -> None:
    bench, sink = Bench(tmp_path, on_error="fail"), Remembering()
    bench.feed(("a", -1), ("a", 2))
    for _ in range(2):
        with pytest.raises(ProcessingError, match=r"sink 'sink' cannot write changes\[.\]@0: is negative"):
            bench.run_sink(sink)
    assert sink.ids == {}
    assert bench.dead_letters() == []


def test_a_record_at_which_a_sink_fails_is_a_dead_letter_once_if_the_topic_is_named(tmp_path: Path) -> None:
    named = {"on_error": "fail", "dead_letter_topic": f"{APP}.dead-letters"}
    bench, sink = Bench(tmp_path, **named), Remembering()
    bench.feed(("a", -1), ("a", 2))
    for _ in range(2):
        with pytest.raises(ProcessingError, match=r"sink 'sink' cannot write changes\[.\]@0: is negative"):
            bench.run_sink(sink)
    assert [letter.record.value for letter in bench.dead_letters()] == [b"-1"]
    assert Bench(tmp_path, **{**named, "on_error": "skip"}).run_sink(sink)
    assert [letter.record.value for letter in bench.dead_letters()] == [b"-1"]
    assert list(sink.ids.values()) == [[2]]


def test_a_reset_starts_a_new_lineage_and_times_still_grow(tmp_path: Path) -> None:
    bench, sink = Bench(tmp_path), MemorySink()
    bench.feed(("a", 1))
    bench.run_sink(sink)
    bench.reset()
    bench.run_sink(sink)
    first, second = sink.batches
    assert (first.number, second.number) == (1, 1)
    assert first.lineage != second.lineage
    assert first.wall_time < second.wall_time


def test_the_clock_grows_when_that_of_the_host_is_set_back(tmp_path: Path) -> None:
    path = tmp_path / "clock.json"
    clock = GrowingClock(path, lambda: 1_000_000)
    before = [clock(), clock()]
    assert before == [1_000_000, 1_000_001]
    after = GrowingClock(path, lambda: 5)
    assert after() > 1_000_001


class Running:
    """A sink that runs in its thread until the block ends."""

    def __init__(self, bench: Bench, sink: Any, *, survive: bool = False) -> None:
        self._log = EmbeddedLog(bench.app.data_dir, durability="os")
        connector = sink_connector(bench.app, self._log, "sink", sink, SinkInput(topics=[TOPIC]))
        self._bench = bench
        self._beside = Connectors(bench.app, [connector]).beside("stopped", lambda: None, survive=survive)

    def __enter__(self) -> Self:
        self._beside.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._beside.__exit__(None, None, None)
        finally:
            self._log.close()
            close_environments(self._bench.app.data_dir)

    def status_when(self, condition: Callable[[ConnectorStatus], bool]) -> ConnectorStatus:
        for _ in range(600):
            for status in connector_statuses(self._bench.app.data_dir, APP):
                if condition(status):
                    return status
            threading.Event().wait(0.05)
        raise AssertionError(f"not within 30 s: {connector_statuses(self._bench.app.data_dir, APP)}")


def test_an_outage_is_visible_and_everything_is_written_after_it(tmp_path: Path) -> None:
    bench, sink = Bench(tmp_path), MemorySink()
    sink.is_down = True
    bench.feed(("a", 1), ("b", 2))
    with Running(bench, sink) as running:
        down = running.status_when(lambda status: status.failure is not None)
        assert down.failure is not None
        assert down.failure.goes_on
        assert str(down) == f"sink: 2 waiting; attempt {down.failure.attempts} failed: the memory is switched off"
        sink.is_down = False
        up = running.status_when(lambda status: status.failure is None and status.waiting == 0)
        assert (up.records, up.batch, up.guarantee) == (2, 1, "exactly once")
    assert keys_and_values(sink) == [("a", 1), ("b", 2)]


def test_a_paused_sink_writes_nothing_until_it_is_resumed(tmp_path: Path) -> None:
    bench, sink = Bench(tmp_path), MemorySink()
    pause(tmp_path, APP, "sink")
    bench.feed(("a", 1))
    with Running(bench, sink) as running:
        running.status_when(lambda status: status.state == "paused" and status.waiting == 1)
        assert sink.batches == []
        pause(tmp_path, APP, "sink", paused=False)
        running.status_when(lambda status: status.waiting == 0)
        pause(tmp_path, APP, "sink")
        running.status_when(lambda status: status.state == "paused")
    assert keys_and_values(sink) == [("a", 1)]


def test_a_sink_can_be_paused_while_it_waits_for_the_end_of_an_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_FIRST_PAUSE_SECONDS", 3600.0)
    monkeypatch.setattr(supervisor, "_MAX_PAUSE_SECONDS", 3600.0)
    bench, sink = Bench(tmp_path), MemorySink()
    sink.is_down = True
    bench.feed(("a", 1))
    with Running(bench, sink) as running:
        running.status_when(lambda status: status.failure is not None)
        pause(tmp_path, APP, "sink")
        running.status_when(lambda status: status.state == "paused")


class Refused(MemorySink):
    """Cannot be opened until a user has changed something."""

    is_refused = True

    def open(self, context: ConnectorContext, /) -> MemorySink:
        if self.is_refused:
            raise ConnectorError("the table belongs to another lineage", hint="choose another table")
        return super().open(context)


def test_a_failed_sink_waits_for_a_restart(tmp_path: Path) -> None:
    bench, sink = Bench(tmp_path), Refused()
    bench.feed(("a", 1))
    with Running(bench, sink, survive=True) as running:
        failed = running.status_when(lambda status: status.state == "failed")
        assert failed.failure is not None
        assert "another lineage" in failed.failure.message
        sink.is_refused = False
        restart(tmp_path, APP, "sink")
        running.status_when(lambda status: status.waiting == 0 and status.state == "running")
    assert keys_and_values(sink) == [("a", 1)]
