import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from millstream import App, Windowed, tumbling
from millstream.batch.journal import Journal
from millstream.errors import UnknownTableError
from millstream.foundation.paths import journal_dir, state_dir
from millstream.foundation.storage import close_environments
from millstream.plan.layout import Layout
from millstream.tables.opening import catalog_of, open_tables, readers_of
from millstream.tables.rows import Row
from millstream.tables.windows import WindowTableReader
from millstream.testing import TestDriver


class Zone(msgspec.Struct):
    name: str
    rides: int = 0


@pytest.fixture
def counting() -> Iterator[tuple[App, TestDriver]]:
    app = App("test")
    app.stream("text", value=str).group_by(lambda word: word).count(name="words")
    with TestDriver(app, partitions=4) as driver:
        driver.topic("text").pipe("mill", "stream", "mill", "mud", timestamp=5)
        yield app, driver


def test_a_table_is_read_as_a_dict(counting: tuple[App, TestDriver]) -> None:
    table = counting[1].table("words")
    assert (table["mill"], table.get("mud"), table.get("missing"), table.get("missing", 0)) == (2, 1, None, 0)
    assert ("mill" in table, "missing" in table, len(table)) == (True, False, 3)
    with pytest.raises(KeyError, match="missing"):
        table["missing"]


def test_a_row_has_a_timestamp(counting: tuple[App, TestDriver]) -> None:
    table = counting[1].table("words")
    assert (table.row("mill"), table.row("missing")) == (Row("mill", 2, 5), None)


def test_all_partitions_are_scanned_by_prefix_and_key_range(counting: tuple[App, TestDriver]) -> None:
    table = counting[1].table("words")

    def keys(**bounds: Any) -> list[str]:
        return sorted(row.key for row in table.scan(**bounds))

    assert keys() == ["mill", "mud", "stream"]
    assert keys(prefix="m") == ["mill", "mud"]
    assert keys(prefix="mi") == ["mill"]
    assert keys(prefix="") == ["mill", "mud", "stream"]
    assert keys(start="mud") == ["mud", "stream"]
    assert keys(start="mill", stop="stream") == ["mill", "mud"]
    assert keys(start="n", stop="o") == []


def test_rows_of_a_partition_are_in_key_order() -> None:
    app = App("test")
    app.stream("n", value=int).group_by(lambda n: n).count(name="seen")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(5, -3, 200, 10)
        assert [row.key for row in driver.table("seen").scan()] == [-3, 5, 10, 200]


OpenTables = Callable[..., Any]


@pytest.fixture
def store_and_open(tmp_path: Path) -> Iterator[OpenTables]:
    """Store a table with one row on disk, as a run does, and open it as another process would."""

    def store_and_open(app: App, topic: str, key: Any, value: Any, *, with_plan: bool) -> Any:
        with TestDriver(app) as driver:
            driver.topic(topic).pipe(value, key=key, timestamp=1)
            shutil.copytree(driver._environment.state_dir, state_dir(tmp_path, app.id))
        journal = Journal(journal_dir(tmp_path, app.id))
        journal.write_catalog(catalog_of(Layout.of(app.plan, {topic: 1})))
        journal.close()
        return open_tables(tmp_path, app.id, app.plan if with_plan else None)

    yield store_and_open
    close_environments(tmp_path)


@pytest.mark.parametrize("with_plan", [True, False])
def test_rows_have_the_declared_type_with_a_plan_and_are_plain_data_without(
    store_and_open: OpenTables, with_plan: bool
) -> None:
    app = App("test")
    app.table("zones", key=int, value=Zone)
    tables = store_and_open(app, "zones", 7, Zone("a", 3), with_plan=with_plan)
    assert list(tables) == ["zones"]
    expected = Zone("a", 3) if with_plan else {"name": "a", "rides": 3}
    assert (tables["zones"][7], list(tables["zones"].items())) == (expected, [(7, expected)])


def test_the_error_for_an_unknown_table_lists_the_existing_tables(store_and_open: OpenTables, tmp_path: Path) -> None:
    app = App("test")
    app.table("zones", value=str)
    tables = store_and_open(app, "zones", "k", "v", with_plan=True)
    with pytest.raises(UnknownTableError, match="app 'test' has no table 'rides'; its tables: zones"):
        tables["rides"]
    with pytest.raises(UnknownTableError, match=r"app 'other' has not run on .*; apps there: test"):
        open_tables(tmp_path, "other")


def test_tables_are_empty_before_the_first_batch(tmp_path: Path) -> None:
    app = App("test")
    app.stream("text", value=str).group_by(lambda word: word).count(name="words")
    table = readers_of(Layout.of(app.plan, {"text": 2}), tmp_path)["words"]
    assert (table.get("mill"), len(table)) == (None, 0)


def test_a_limited_scan_returns_a_subset_of_the_rows(counting: tuple[App, TestDriver]) -> None:
    table = counting[1].table("words")
    rows = list(table.scan())
    assert list(table.scan(limit=10)) == rows
    assert {row.key for row in table.scan(limit=1)} < {row.key for row in rows}


def test_the_windows_of_a_key_do_not_include_those_of_other_keys() -> None:
    app = App("windows")
    app.stream("text", value=str).group_by(lambda word: word).windowed_by(tumbling("1 min", grace="1 h")).count(
        name="w"
    )
    long = "x" * 1000
    with TestDriver(app, partitions=1) as driver:
        for minute in range(5):
            driver.topic("text").pipe("a", "aa", long, timestamp=minute * 60_000)
        reader = driver.table("w")
        assert isinstance(reader, WindowTableReader)
        assert [row.key.start for row in reader.windows("a")] == [0, 60_000, 120_000, 180_000, 240_000]
        assert {row.key.key for row in reader.windows(long)} == {long}
        assert [row.key.start for row in reader.windows("aa", start=60_000, stop=120_000)] == [60_000, 120_000]
        assert [row.key.key for row in reader.scan(limit=2)] == ["a", "a"]
        assert reader.row(Windowed("a", 60_000, 120_000)) == Row(Windowed("a", 60_000, 120_000), 1, 60_000)
