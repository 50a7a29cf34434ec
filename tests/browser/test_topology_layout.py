"""The drawing of a topology in a real browser: everything is visible on load, and no label overlaps or overflows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from tests.browser.conftest import Browser, resize
from tests.cli.running import run_to_end
from tests.serve.conftest import fill, web_server

from millstream import App, tumbling
from millstream.serve.server import WebServer

WINDOWS = {"desk": (1280, 900), "tablet": (820, 1100), "phone": (390, 844)}
APPS = ("small", "large", "long-names")
# [kind, left, top, right, bottom] of every element in the shown drawing
SCRIPT = """
const drawing = [...document.querySelectorAll('#graph svg')].find((svg) => svg.getClientRects().length);
const box = (kind, element) => {
  const {left, top, right, bottom} = element.getBoundingClientRect();
  return [kind, left, top, right, bottom, element.textContent];
};
return {
  scale: drawing.getBoundingClientRect().width / drawing.getAttribute('width'),
  drawing: box('drawing', drawing),
  frame: box('frame', document.querySelector('.graph-box')),
  nodes: [...drawing.querySelectorAll('.node')].map((node) => ({
    box: box('node', node.querySelector('rect, path')),
    texts: [...node.querySelectorAll('text')].map((text) => box('text', text)),
  })),
  titles: [...drawing.querySelectorAll('.stage-title')].map((text) => box('title', text)),
  stages: [...drawing.querySelectorAll('.stage rect')].map((rect) => box('stage', rect)),
  rates: [...drawing.querySelectorAll('.edge text')].map((text) => box('rate', text)),
}"""


def small_app(data_dir: Path) -> App:
    app = App("small", data_dir=data_dir)
    app.stream("lines", value=str).filter(bool).to("kept")
    return app


def large_app(data_dir: Path) -> App:
    """Return a topology of more than 60 nodes."""
    app = App("large", data_dir=data_dir)
    stream = app.stream("rides", value=dict)
    for number in range(15):
        branch = stream.filter(lambda _: True, name=f"filter-{number}").map_values(lambda ride: ride, name=f"m{number}")
        branch.group_by(lambda ride: ride).count(name=f"count_{number}").to_stream().to(f"topic-{number}")
    return app


def long_names_app(data_dir: Path) -> App:
    app = App("long-names", data_dir=data_dir)
    name = "an-exceedingly-long-name-of-a-step-that-is-never-abbreviated-MMMM-WWWW"
    stream = app.stream("rides", value=dict).map_values(lambda ride: ride, name=f"{name}-values")
    windows = stream.group_by(lambda ride: ride["vendor"]).windowed_by(tumbling("1 min", grace="10 s"))
    windows.count(name=f"{name}-count").to_stream().to(f"{name}-topic")
    return app


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    data_dir = tmp_path_factory.mktemp("topologies")
    fill(data_dir)
    for app in (small_app, large_app, long_names_app):
        run_to_end(app(data_dir), measured=True)
    with web_server(data_dir) as server:
        yield server


def is_inside(inner: list[float], outer: list[float], slack: float = 1.0) -> bool:
    return (
        inner[1] >= outer[1] - slack
        and inner[2] >= outer[2] - slack
        and inner[3] <= outer[3] + slack
        and inner[4] <= outer[4] + slack
    )


def do_overlap(left: list[float], right: list[float], slack: float = 0.5) -> bool:
    return (
        left[1] < right[3] - slack
        and right[1] < left[3] - slack
        and left[2] < right[4] - slack
        and right[2] < left[4] - slack
    )


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("app", APPS)
def test_all_of_a_topology_is_visible_on_load(browser: Browser, app: str, window: str) -> None:
    width, height = WINDOWS[window]
    resize(browser.driver, width, height)
    browser.open(f"/topology?app={app}")
    shapes = browser.run(SCRIPT)
    assert is_inside(shapes["frame"], ["", 0, 0, width, height])  # type: ignore[index, list-item]
    assert is_inside(shapes["drawing"], shapes["frame"])  # type: ignore[index]
    for node in shapes["nodes"]:  # type: ignore[index]
        assert is_inside(node["box"], shapes["drawing"])  # type: ignore[index]
    assert shapes["scale"] <= 1.001  # type: ignore[index]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("app", APPS)
def test_no_label_overlaps_another_or_leaves_its_box(browser: Browser, app: str, window: str) -> None:
    resize(browser.driver, *WINDOWS[window])
    browser.open(f"/topology?app={app}")
    shapes = browser.run(SCRIPT)
    texts = []
    for node in shapes["nodes"]:  # type: ignore[index]
        assert node["texts"]
        for text in node["texts"]:
            assert is_inside(text, node["box"]), text
        texts += node["texts"]
    for title in shapes["titles"]:  # type: ignore[index]
        assert any(is_inside(title, stage) for stage in shapes["stages"]), title  # type: ignore[index]
    nodes = [node["box"] for node in shapes["nodes"]]  # type: ignore[index]
    rates = shapes["rates"]  # type: ignore[index]
    assert rates
    for left, right in combinations([*texts, *shapes["titles"], *rates], 2):  # type: ignore[index]
        # the lines of a node are close to each other: the boxes of their glyphs may touch
        assert not do_overlap(left, right, slack=3.0), (left, right)
    for rate in rates:
        assert not any(do_overlap(rate, box) for box in nodes), rate


def test_the_buttons_cover_nothing_of_the_drawing(browser: Browser) -> None:
    resize(browser.driver, *WINDOWS["phone"])
    browser.open("/topology?app=small")
    top = browser.run("return document.querySelector('.zoom').getBoundingClientRect().top")
    assert top >= browser.run(SCRIPT)["frame"][4]  # type: ignore[index]
