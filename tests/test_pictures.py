"""The diagrams of the concepts match what the code does: each is drawn again and compared with the stored file."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from benchmarks.chart import chart_svg
from benchmarks.summary import CHART, RESULTS, panels
from docs.pictures.__main__ import DIRECTORY
from docs.pictures.drawing import Bar, Lane, Mark, Picture, svg
from docs.pictures.runs import PICTURES

PAGES = DIRECTORY.parents[1] / "concepts"


@pytest.mark.parametrize("name", PICTURES)
def test_a_stored_diagram_matches_its_run(name: str, tmp_path: Path) -> None:
    drawn = svg(PICTURES[name](tmp_path))
    assert (DIRECTORY / f"{name}.svg").read_text() == drawn, "run: ./dev pictures"


def test_every_concept_page_has_a_diagram_and_vice_versa() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")} - {"README"}
    assert pages == set(PICTURES) == {path.stem for path in DIRECTORY.glob("*.svg")}
    for page in pages:
        assert f"(../img/concepts/{page}.svg)" in (PAGES / f"{page}.md").read_text()


def test_the_benchmark_chart_shows_the_last_results() -> None:
    assert CHART.read_text() == chart_svg(panels(json.loads(RESULTS.read_text()))), "run: ./dev bench --draw"


def test_text_is_escaped_and_overlapping_bars_are_drawn_on_separate_tracks() -> None:
    lane = Lane("a < b", [Mark(0, "<x>\n&", "late")], [Bar(0, 1, "1"), Bar(0.5, 1, "2")])
    root = ET.fromstring(svg(Picture('"quoted"', [lane], [(0, "0")], "axis", 0, 1)))
    texts = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["a < b", "1", "2", "<x>", "&", "axis", "0"]
    boxes = [box.attrib for box in root.iter("{http://www.w3.org/2000/svg}rect")][2:4]
    assert boxes[0]["y"] != boxes[1]["y"], "overlapping bars must be on separate tracks"
