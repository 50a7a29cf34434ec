"""SECURITY.md names the test of every finding and of every row of its checklist; each of them exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text()


def named_tests() -> list[str]:
    """Return ``PATH`` or ``PATH::TEST`` of each test that a table names; ``…`` stands for the path before it."""
    names: list[str] = []
    for name in re.findall(r"`((?:tests/|…::)[^`]*)`", PAGE):
        path = names[-1].partition("::")[0] if name.startswith("…") else ""
        names.append(path + name.removeprefix("…"))
    return names


@pytest.mark.parametrize("name", named_tests())
def test_a_test_that_the_page_names_exists(name: str) -> None:
    path, _, test = name.partition("::")
    assert (ROOT / path).exists()
    assert not test or re.search(rf"^ *(async )?def {test}\(", (ROOT / path).read_text(), re.MULTILINE)


def test_every_row_of_the_checklist_names_a_test_except_the_policy() -> None:
    rows = re.findall(r"^\| (\d+) \|[^|]*\| ([^|]*)\|", PAGE, re.MULTILINE)
    assert [number for number, tests in rows if "tests/" not in tests] == ["23"]
    assert len(rows) == 23
