"""The pictures of the concepts show what happens: each is drawn again, and is the one that is there."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from benchmarks.picture import drawn
from benchmarks.summary import FIGURES, PICTURE, panels
from docs.pictures.__main__ import DIRECTORY
from docs.pictures.drawing import Bar, Lane, Mark, Picture, svg
from docs.pictures.runs import PICTURES

PAGES = DIRECTORY.parents[1] / "concepts"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_its_run_gives(name: str, tmp_path: Path) -> None:
    drawn = svg(PICTURES[name](tmp_path))
    assert (DIRECTORY / f"{name}.svg").read_text() == drawn, "run: ./dev pictures"


def test_each_picture_has_its_page_and_each_page_its_picture() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")} - {"README"}
    assert pages == set(PICTURES) == {file.stem for file in DIRECTORY.glob("*.svg")}
    for page in pages:
        assert f"(../img/concepts/{page}.svg)" in (PAGES / f"{page}.md").read_text()


def test_the_picture_of_benchmarks_shows_the_last_figures() -> None:
    assert PICTURE.read_text() == drawn(panels(json.loads(FIGURES.read_text()))), "run: ./dev bench --draw"


def test_what_is_drawn_is_well_formed_whatever_the_text() -> None:
    lane = Lane("a < b", [Mark(0, "<x>\n&", "late")], [Bar(0, 1, "1"), Bar(0.5, 1, "2")])
    root = ET.fromstring(svg(Picture('"told"', [lane], [(0, "0")], "axis", 0, 1)))
    texts = ["".join(found.itertext()) for found in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["a < b", "1", "2", "<x>", "&", "axis", "0"]
    boxes = [found.attrib for found in root.iter("{http://www.w3.org/2000/svg}rect")][2:4]
    assert boxes[0]["y"] != boxes[1]["y"], "bars that overlap lie below each other"
