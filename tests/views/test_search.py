from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.broker import Output, TopicConfig
from millstream.errors import DefinitionError
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.records import Record
from millstream.views.search import Direction, format_cursor, search, start_positions


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t", TopicConfig(partitions=2))
        for partition in (0, 1):
            times = list(range(partition, 2000, 2))
            block = block_of([b"k"] * 1000, [b"%d" % time for time in times], times)
            log.append([Output("t", partition, block)])
        yield log


def timestamps(log: EmbeddedLog, start: str, direction: Direction, limit: int, **options: object) -> list[int]:
    result = search(log, start_positions(log, "t", None, start), direction, limit=limit, seconds=9, **options)  # type: ignore[arg-type]
    return [record.timestamp for record in result.records]


def test_records_are_sorted_by_time_from_either_end(log: EmbeddedLog) -> None:
    assert timestamps(log, "latest", "older", 5) == [1999, 1998, 1997, 1996, 1995]
    assert timestamps(log, "earliest", "newer", 5) == [0, 1, 2, 3, 4]
    assert timestamps(log, "latest", "newer", 5) == []
    assert timestamps(log, "1970-01-01T00:00:01Z", "newer", 3) == [1000, 1001, 1002]
    assert timestamps(log, "998", "newer", 9) == [1996, 1997, 1998, 1999]


@pytest.mark.parametrize("direction", ["older", "newer"])
def test_pages_have_no_gaps_and_no_overlap(log: EmbeddedLog, direction: Direction) -> None:
    start = "latest" if direction == "older" else "earliest"
    read: list[int] = []
    while True:
        page = search(log, start_positions(log, "t", None, start), direction, limit=333, seconds=9)
        read += [record.timestamp for record in page.records]
        if page.is_exhausted:
            break
        start = format_cursor(page.positions)
    assert read == (list(range(2000)) if direction == "newer" else list(range(1999, -1, -1)))


def test_a_filtered_search_continues_until_it_has_enough_records(log: EmbeddedLog) -> None:
    def is_match(record: Record) -> bool:
        return record.timestamp % 500 == 0

    assert timestamps(log, "latest", "older", 3, predicate=is_match) == [1500, 1000, 500]


def test_a_search_that_times_out_can_be_continued(log: EmbeddedLog) -> None:
    page = search(
        log, start_positions(log, "t", None, "earliest"), "newer", limit=9, seconds=-1, predicate=lambda _: False
    )
    assert (page.has_timed_out, page.is_exhausted, page.scanned) == (True, False, 1)
    assert format_cursor(page.positions) == "0:1,1:0"


@pytest.mark.parametrize("start", ["somewhere", "-5", "1:2:3", "0:1,", "99999999999999999999"])
def test_an_invalid_position_is_rejected(log: EmbeddedLog, start: str) -> None:
    with pytest.raises(DefinitionError, match="is not a valid position in a topic"):
        start_positions(log, "t", None, start)


def test_the_time_limit_is_checked_after_each_record(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("millstream.views.search.time.monotonic", lambda: now)

    def is_slow_match(record: Record) -> bool:
        nonlocal now
        now += 1.0
        return False

    result = search(
        log, start_positions(log, "t", None, "latest"), "older", limit=1, seconds=2.5, predicate=is_slow_match
    )
    assert (result.scanned, result.has_timed_out) == (3, True)


@pytest.fixture
def large(tmp_path: Path) -> Iterator[EmbeddedLog]:
    """Return a log with 60 records of 1 MB."""
    with EmbeddedLog(tmp_path / "large") as log:
        log.create_topic("t", TopicConfig(partitions=1))
        for time in range(60):
            log.append([Output("t", 0, block_of([b"k"], [b"%06d" % time * 166_000], [time]))])
        yield log


@pytest.mark.parametrize(("start", "direction"), [("latest", "older"), ("earliest", "newer")])
def test_a_search_reads_a_bounded_number_of_bytes_and_can_be_continued(
    large: EmbeddedLog, monkeypatch: pytest.MonkeyPatch, start: str, direction: Direction
) -> None:
    monkeypatch.setattr("millstream.views.search._SEARCH_BYTES", 10_000_000)
    read: list[int] = []
    pages = 0
    while True:
        page = search(large, start_positions(large, "t", None, start), direction, limit=100, seconds=60)
        assert len(page.records) <= 11
        read += [record.timestamp for record in page.records]
        pages += 1
        if page.is_exhausted:
            break
        assert page.has_timed_out
        start = format_cursor(page.positions)
    assert pages >= 6
    assert read == (list(range(60)) if direction == "newer" else list(range(59, -1, -1)))


def test_the_newest_record_is_read_without_loading_the_topic(large: EmbeddedLog) -> None:
    tracemalloc.start()
    result = search(large, start_positions(large, "t", None, "latest"), "older", limit=1, seconds=60)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [record.timestamp for record in result.records] == [59]
    assert peak < 40_000_000  # all records are 60 MB
