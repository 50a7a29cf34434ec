"""The book builds without a warning, and its navigation lists every page."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_every_page_is_in_the_navigation() -> None:
    book = (ROOT / "mkdocs.yml").read_text()
    pages = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]
    missing = [page for page in pages if page not in book and not page.startswith("adr/0")]
    assert missing == []


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "adr"
    index = (folder / "README.md").read_text()
    assert [page.name for page in sorted(folder.glob("0*.md")) if f"({page.name})" not in index] == []


@pytest.mark.slow
def test_the_book_builds_in_strict_mode(tmp_path: Path) -> None:
    completed = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    api = (tmp_path / "api.html").read_text()
    for member in ("app.App.stream", "dsl.stream.Stream.flat_map_values", "dsl.grouped.GroupedStream.sum"):
        assert f'id="millstream.{member}"' in api, "inherited members are documented too"
    assert "<blockquote>" not in api  # Markdown renders a doctest without a fence as a quotation
