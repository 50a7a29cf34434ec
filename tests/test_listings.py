"""A Python listing on a page that names a file of the repository matches that file.

A listing names a file in its first line: ``# examples/word_count.py`` for the whole file, or
``# examples/word_count.py (excerpt)`` for consecutive lines of it; a line ``# ...`` separates excerpts.
"""

import re
from pathlib import Path

import pytest
from tests.test_docs import PAGES, ROOT, python_blocks

HEADER = re.compile(r"# (?P<path>[\w/.-]+\.py)(?P<excerpt> \(excerpt\))?")
FOLDERS = ("benchmarks", "docs", "examples", "src", "tests")
"""Folders with Python files; a listing such as ``# orders.py`` is a file that the reader writes."""


def problem(listing: str, root: Path) -> str | None:
    """Return how ``listing`` differs from the file that it names; None if it matches or names no file."""
    first, _, body = listing.partition("\n")
    header = HEADER.match(first)
    if header is None or header["path"].split("/")[0] not in FOLDERS:
        return None
    if header[0] != first:
        return f"the first line {first!r} is neither '# PATH' nor '# PATH (excerpt)'"
    path = root / header["path"]
    if not path.exists():
        return f"there is no file {header['path']!r}"
    text = path.read_text()
    if header["excerpt"] is None:
        return None if body.strip("\n") == text.strip("\n") else f"it is not the whole of {header['path']}"
    excerpts = [part.strip("\n") for part in re.split(r"^# \.\.\.$", body, flags=re.MULTILINE)]
    position = 0
    for excerpt in excerpts:
        start = f"\n{text}\n".find(f"\n{excerpt}\n", position)
        if not excerpt or start < 0:
            return f"these are not consecutive lines of {header['path']}:\n{excerpt}"
        position = start + len(excerpt)
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_listing_matches_the_file_it_names(page: Path) -> None:
    problems = {block.line: problem(block.code, ROOT) for block in python_blocks(page.read_text())}
    assert {line: reason for line, reason in problems.items() if reason is not None} == {}


def test_the_readme_names_a_file() -> None:
    first_lines = [block.code.partition("\n")[0] for block in python_blocks((ROOT / "README.md").read_text())]
    assert "# examples/word_count.py (excerpt)" in first_lines


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        ("# src/a.py\nx = 1\ny = 2\nz = 3\n", None),
        ("# src/a.py\nx = 1\ny = 2\n", "it is not the whole of src/a.py"),
        ("# src/a.py (excerpt)\nx = 1\ny = 2\n", None),
        ("# src/a.py (excerpt)\nx = 1\n\n# ...\n\nz = 3\n", None),
        ("# src/a.py (excerpt)\nx = 1\nz = 3\n", "these are not consecutive lines of src/a.py:\nx = 1\nz = 3"),
        ("# src/a.py (excerpt)\nz = 3\n# ...\nx = 1\n", "these are not consecutive lines of src/a.py:\nx = 1"),
        ("# src/a.py (excerpt)\ny =\n", "these are not consecutive lines of src/a.py:\ny ="),
        ("# src/a.py, shortened\nx = 1\n", "the first line '# src/a.py, shortened' is neither"),
        ("# src/b.py\nx = 1\n", "there is no file 'src/b.py'"),
        ("# orders.py\nx = 1\n", None),
        ("x = 1\n", None),
    ],
)
def test_differences_are_detected(listing: str, expected: str | None, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("x = 1\ny = 2\nz = 3\n")
    message = problem(listing, tmp_path)
    assert message == expected or (expected is not None and message is not None and message.startswith(expected))
