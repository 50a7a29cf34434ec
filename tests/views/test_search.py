from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.broker import Output, TopicConfig
from millstream.errors import DefinitionError
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.records import Record
from millstream.views.search import Direction, cursor_of, search, start_of


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t", TopicConfig(partitions=2))
        for partition in (0, 1):
            times = list(range(partition, 2000, 2))
            block = block_of([b"k"] * 1000, [b"%d" % time for time in times], times)
            log.append([Output("t", partition, block)])
        yield log


def found(log: EmbeddedLog, start: str, direction: Direction, limit: int, **options: object) -> list[int]:
    result = search(log, start_of(log, "t", None, start), direction, limit=limit, seconds=9, **options)  # type: ignore[arg-type]
    return [record.timestamp for record in result.records]


def test_records_come_in_the_order_of_time_from_either_end(log: EmbeddedLog) -> None:
    assert found(log, "latest", "older", 5) == [1999, 1998, 1997, 1996, 1995]
    assert found(log, "earliest", "newer", 5) == [0, 1, 2, 3, 4]
    assert found(log, "latest", "newer", 5) == []
    assert found(log, "1970-01-01T00:00:01Z", "newer", 3) == [1000, 1001, 1002]
    assert found(log, "998", "newer", 9) == [1996, 1997, 1998, 1999]


@pytest.mark.parametrize("direction", ["older", "newer"])
def test_pages_follow_each_other_without_gap_or_overlap(log: EmbeddedLog, direction: Direction) -> None:
    start = "latest" if direction == "older" else "earliest"
    seen: list[int] = []
    while True:
        page = search(log, start_of(log, "t", None, start), direction, limit=333, seconds=9)
        seen += [record.timestamp for record in page.records]
        if page.is_exhausted:
            break
        start = cursor_of(page.positions)
    assert seen == (list(range(2000)) if direction == "newer" else list(range(1999, -1, -1)))


def test_a_filter_looks_on_until_it_has_enough(log: EmbeddedLog) -> None:
    def is_wanted(record: Record) -> bool:
        return record.timestamp % 500 == 0

    assert found(log, "latest", "older", 3, is_wanted=is_wanted) == [1500, 1000, 500]


def test_a_search_ends_when_its_time_is_up_and_can_be_gone_on_with(log: EmbeddedLog) -> None:
    page = search(log, start_of(log, "t", None, "earliest"), "newer", limit=9, seconds=-1, is_wanted=lambda _: False)
    assert (page.is_out_of_time, page.is_exhausted, page.looked_at) == (True, False, 256)
    assert cursor_of(page.positions) == "0:128,1:128"


@pytest.mark.parametrize("start", ["somewhere", "-5", "1:2:3", "0:1,", "99999999999999999999"])
def test_a_place_that_is_none_is_refused(log: EmbeddedLog, start: str) -> None:
    with pytest.raises(DefinitionError, match="no place in a topic"):
        start_of(log, "t", None, start)
