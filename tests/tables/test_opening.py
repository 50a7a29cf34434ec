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
    assert (table["mill"], table.get("mud"), table.get("gone"), table.get("gone", 0)) == (2, 1, None, 0)
    assert ("mill" in table, "gone" in table, len(table)) == (True, False, 3)
    with pytest.raises(KeyError, match="gone"):
        table["gone"]


def test_a_row_has_a_timestamp(counting: tuple[App, TestDriver]) -> None:
    table = counting[1].table("words")
    assert (table.row("mill"), table.row("gone")) == (Row("mill", 2, 5), None)


def test_rows_are_scanned_by_prefix_and_between_keys_over_all_partitions(counting: tuple[App, TestDriver]) -> None:
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


def test_within_a_partition_rows_are_in_the_order_of_their_keys() -> None:
    app = App("test")
    app.stream("n", value=int).group_by(lambda n: n).count(name="seen")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(5, -3, 200, 10)
        assert [row.key for row in driver.table("seen").scan()] == [-3, 5, 10, 200]


Opened = Callable[..., Any]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Put a table on disk as a run does, with one row, and open it as another process would."""

    def opened(app: App, topic: str, key: Any, value: Any, *, known: bool) -> Any:
        with TestDriver(app) as driver:
            driver.topic(topic).pipe(value, key=key, timestamp=1)
            shutil.copytree(driver._environment.state_dir, state_dir(tmp_path, app.id))
        journal = Journal(journal_dir(tmp_path, app.id))
        journal.describe_as(catalog_of(Layout.of(app.plan, {topic: 1})))
        journal.close()
        return open_tables(tmp_path, app.id, app.plan if known else None)

    yield opened
    close_environments(tmp_path)


@pytest.mark.parametrize("known", [True, False])
def test_rows_are_the_declared_type_where_the_app_is_known_and_plain_data_elsewhere(
    opened: Opened, known: bool
) -> None:
    app = App("test")
    app.table("zones", key=int, value=Zone)
    tables = opened(app, "zones", 7, Zone("a", 3), known=known)
    assert list(tables) == ["zones"]
    expected = Zone("a", 3) if known else {"name": "a", "rides": 3}
    assert (tables["zones"][7], list(tables["zones"].items())) == (expected, [(7, expected)])


def test_a_table_that_is_not_there_is_named_with_those_that_are(opened: Opened, tmp_path: Path) -> None:
    app = App("test")
    app.table("zones", value=str)
    tables = opened(app, "zones", "k", "v", known=True)
    with pytest.raises(UnknownTableError, match="app 'test' has no table 'rides'; its tables: zones"):
        tables["rides"]
    with pytest.raises(UnknownTableError, match=r"app 'other' has not run on .*; apps there: test"):
        open_tables(tmp_path, "other")


def test_before_the_first_batch_tables_are_empty(tmp_path: Path) -> None:
    app = App("test")
    app.stream("text", value=str).group_by(lambda word: word).count(name="words")
    table = readers_of(Layout.of(app.plan, {"text": 2}), tmp_path)["words"]
    assert (table.get("mill"), len(table)) == (None, 0)


def test_a_look_at_a_large_table_reads_few_rows_of_each_partition(counting: tuple[App, TestDriver]) -> None:
    table = counting[1].table("words")
    everything = list(table.scan())
    assert list(table.scan(limit=10)) == everything
    assert {one.key for one in table.scan(limit=1)} < {row.key for row in everything}


def test_windows_of_a_key_are_found_without_those_of_others() -> None:
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
