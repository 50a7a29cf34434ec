import sys
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pytest

from millstream import App, tumbling
from millstream.errors import DefinitionError
from millstream.tables.frames import arrow_table
from millstream.testing import TestDriver


class Sale(msgspec.Struct):
    shop: str
    price: float
    day: date
    key: int = 0


class Shop(msgspec.Struct, frozen=True):
    town: str
    number: int


DAY = date(2026, 1, 2)
SECOND = datetime.fromtimestamp(1, UTC)


def driver_of(app: App, *records: tuple[str, Any, int]) -> TestDriver:
    driver = TestDriver(app)
    for key, value, timestamp in records:
        driver.topic("in").pipe(value, key=key, timestamp=timestamp)
    return driver


def test_a_row_has_a_column_for_its_key_each_field_and_its_time() -> None:
    app = App("frames")
    app.table("in", value=Sale, name="sales")
    with driver_of(app, ("b", Sale("x", 2.5, DAY), 1_000), ("a", Sale("y", 1, DAY, 7), 1_000)) as driver:
        table = driver.table("sales").to_arrow()
    assert table.column_names == ["key", "shop", "price", "day", "value.key", "timestamp"]
    assert table.to_pylist() == [
        {"key": "a", "shop": "y", "price": 1.0, "day": DAY, "value.key": 7, "timestamp": SECOND},
        {"key": "b", "shop": "x", "price": 2.5, "day": DAY, "value.key": 0, "timestamp": SECOND},
    ]


def test_windows_have_a_start_and_an_end_and_are_ordered_by_time() -> None:
    app = App("frames")
    app.stream("in", value=int).group_by_key().windowed_by(tumbling("1 s", grace="1 min")).count(name="counts")
    with driver_of(app, ("b", 1, 1_000), ("a", 1, 2_000), ("a", 1, 1_500)) as driver:
        frame = driver.table("counts").to_pandas()
        polars = driver.table("counts").to_polars()
    assert list(frame.columns) == ["key", "window_start", "window_end", "value", "timestamp"]
    assert list(zip(frame["key"], frame["window_start"], frame["value"], strict=True)) == [
        ("a", SECOND, 1),
        ("b", SECOND, 1),
        ("a", datetime.fromtimestamp(2, UTC), 1),
    ]
    assert polars["window_end"].to_list() == frame["window_end"].to_list()
    assert polars["value"].to_list() == [1, 1, 1]


def test_a_key_with_fields_has_a_column_for_each() -> None:
    app = App("frames")
    app.stream("in", value=str).group_by(lambda value: Shop(value, len(value))).count(name="counts")
    with driver_of(app, ("a", "Ulm", 0)) as driver:
        assert driver.table("counts").to_arrow().select(["key.town", "key.number", "value"]).to_pylist() == [
            {"key.town": "Ulm", "key.number": 3, "value": 1}
        ]


def test_an_empty_table_has_columns_too() -> None:
    app = App("frames")
    app.table("in", value=int, name="numbers")
    with TestDriver(app) as driver:
        assert driver.table("numbers").to_arrow().column_names == ["key", "value", "timestamp"]
        assert len(driver.table("numbers").to_pandas()) == 0


class Shipped(msgspec.Struct, tag="shipped", omit_defaults=True, array_like=True, rename="camel"):
    sent_to: str
    pieces: int = 1


def test_fields_have_their_names_in_topics_and_their_defaults() -> None:
    app = App("frames")
    app.stream("in", value=int).map_values(lambda number: Shipped("Ulm"), value=Shipped).to_table(name="shipped")
    with TestDriver(app) as driver:
        assert driver.table("shipped").to_arrow().column_names == ["key", "sentTo", "pieces", "timestamp"]
        driver.topic("in").pipe(1, key="a")
        [row] = driver.table("shipped").to_arrow().select(["type", "sentTo", "pieces"]).to_pylist()
        assert row == {"type": "shipped", "sentTo": "Ulm", "pieces": 1}


def test_a_field_that_only_some_rows_have_is_none_in_the_others() -> None:
    app = App("frames")
    app.table("in", name="rows")
    with driver_of(app, ("a", {"x": 1}, 0), ("b", {"y": [2]}, 0)) as driver:
        assert driver.table("rows").to_arrow().select(["x", "y"]).to_pylist() == [
            {"x": 1, "y": None},
            {"x": None, "y": [2]},
        ]


def test_a_column_with_values_of_several_types_is_named() -> None:
    with pytest.raises(DefinitionError, match=r"column 'x' of table 'rows' has values of several types: .*scan\(\)"):
        arrow_table("rows", {"x": [1, "a"]}, windowed=False)


def test_a_field_that_is_called_like_the_time_of_a_window_keeps_its_type() -> None:
    app = App("frames")
    app.table("in", value=dict, name="rows")
    with driver_of(app, ("a", {"window_start": "Monday"}, 0)) as driver:
        assert driver.table("rows").to_arrow().column("window_start").to_pylist() == ["Monday"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named_with_the_extra_that_installs_it(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App("frames")
    app.table("in", value=int, name="numbers")
    monkeypatch.setitem(sys.modules, library, None)
    with TestDriver(app) as driver, pytest.raises(DefinitionError) as caught:
        getattr(driver.table("numbers"), f"to_{library}")()
    assert str(caught.value) == (
        f"to_{library}() needs {library}, which is not installed; install it with: pip install 'millstream[{library}]'"
    )
