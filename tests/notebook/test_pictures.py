"""What Jupyter shows for apps, handles and tables, and the charts of tables: well-formed, escaped and complete."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from xml.etree import ElementTree

import pytest

from millstream import App, tumbling
from millstream.durations import Duration
from millstream.errors import DefinitionError
from millstream.notebook import live_table
from millstream.notebook.charts import chart
from millstream.notebook.tables import first_rows
from millstream.testing import TestDriver

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str | None) -> list[str]:
    assert svg is not None
    return [text.text or "" for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def shop() -> App:
    app = App("shop")
    sales = app.stream("sales", value=dict[str, Any])
    by_shop = sales.group_by(lambda sale: sale["shop"])
    by_shop.aggregate(lambda: {"n": 0, "sum": 0.0}, add, name="totals")
    by_shop.windowed_by(tumbling("1 min")).count(name="per_minute", retention="1 h")
    app.stream("other").to("copy")
    return app


def add(total: dict[str, float], sale: dict[str, Any]) -> dict[str, float]:
    return {"n": total["n"] + 1, "sum": total["sum"] + sale["price"]}


def fed() -> TestDriver:
    driver = TestDriver(shop())
    for number in range(30):
        sale = {"shop": f"<b>{number % 3}", "price": number}
        driver.topic("sales").pipe(sale, timestamp=number * 10_000)
    return driver


def test_an_app_is_drawn_with_its_topics_steps_and_tables() -> None:
    names = texts(shop()._repr_svg_())
    assert {"sales", "other", "copy", "totals", "per_minute", "select key", "aggregate"} <= set(names)


def test_a_handle_is_drawn_with_what_it_depends_on() -> None:
    app = App("part")
    numbers = app.stream("numbers", value=int)
    numbers.filter(lambda number: number > 1).to("large")
    table = numbers.group_by(lambda number: number % 2).count(name="parity")
    assert "parity" in texts(table._repr_svg_())
    assert not {"large", "numbers.filter"} & set(texts(table._repr_svg_()))
    assert texts(numbers._repr_svg_()).count("numbers") == 3  # the topic, the stage and its source


def test_an_app_without_steps_and_an_unfinished_topology_are_shown_as_text() -> None:
    app = App("empty")
    assert app._repr_svg_() is None
    app.stream("numbers").to_table(name="same")
    app.stream("numbers").to_table(name="same")
    assert app._repr_svg_() is None


def test_a_table_shows_its_first_rows_escaped() -> None:
    with fed() as driver:
        html = first_rows(driver.table("totals"), 2)
    assert "<strong>totals</strong>: the first of 3 rows" in html
    assert "<th>key</th><th>n</th><th>sum</th><th>timestamp</th>" in html
    assert "<td>&lt;b&gt;0</td><td>10</td><td>135.0</td><td>1970-01-01 00:04:30</td>" in html
    assert "<td>&lt;b&gt;2" not in html
    assert driver.table("totals").__repr__() == "<TableReader totals>"


def test_a_windowed_table_shows_its_latest_windows() -> None:
    with fed() as driver:
        html = driver.table("per_minute")._repr_html_()
    assert "<strong>per_minute</strong>: 15 windows" in html
    assert html.index("00:04:00") < html.index("00:03:00")


def test_windows_are_lines_and_other_tables_bars() -> None:
    with fed() as driver:
        lines = ElementTree.fromstring(chart(driver.table("per_minute"), None, 2))
        bars = chart(driver.table("totals"), "sum", 8)
    assert len(list(lines.iter(f"{SVG}polyline"))) == 2
    assert len(list(lines.iter(f"{SVG}circle"))) == 10
    assert texts(bars) == ["totals: sum", "<b>2", "155", "<b>1", "145", "<b>0", "135"]


def test_a_chart_leaves_out_numbers_that_cannot_be_drawn() -> None:
    numbers = [Decimal("2.5"), 10**400, float("nan"), float("inf"), 4]
    app = App("numbers")
    indexes = app.stream("indexes", value=int)
    indexes.group_by(lambda index: index).aggregate(lambda: 0, lambda _, index: numbers[index], name="numbers")
    with TestDriver(app) as driver:
        driver.topic("indexes").pipe(*range(len(numbers)))
        assert texts(chart(driver.table("numbers"), None, 8)) == ["numbers: value", "4", "4", "0", "2.5"]


@pytest.mark.parametrize("name", ["totals", "per_minute"])
def test_a_table_without_rows_has_a_chart(name: str) -> None:
    with TestDriver(shop()) as driver:
        assert texts(chart(driver.table(name), None, 8))[1] in ("no rows yet", "no windows yet")


def test_a_column_without_numbers_is_refused_with_those_that_have_some() -> None:
    with fed() as driver, pytest.raises(DefinitionError, match=r"'shop' of table 'totals' has no numbers.*: n, sum"):
        chart(driver.table("totals"), "shop", 8)


@pytest.mark.parametrize("every", ["0 s", timedelta(seconds=-1)])
def test_a_live_view_without_an_interval_is_refused(every: Duration) -> None:
    with fed() as driver, pytest.raises(DefinitionError, match="is not an interval"):
        live_table(driver.table("totals"), every=every)


def test_a_live_view_outside_a_notebook_is_refused() -> None:
    with fed() as driver, pytest.raises(DefinitionError, match="a live view needs a notebook"):
        live_table(driver.table("totals"))
