"""The examples in the documentation run: the docstrings of the source, and the Python blocks of the pages.

The blocks of a page run in order and share their names. ``<!-- not run: reason -->`` before a block skips it. A block
whose first line is ``# NAME.py`` is a file that the reader saves: it is written as that file, and pytest runs it.
"""

import contextlib
import doctest
import importlib
import io
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import millstream

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES_WITH_EXAMPLES = [page for page in PAGES if "```python\n" in page.read_text()]
BLOCK = re.compile(
    r"(?:<!-- not run:(?P<reason>[^>]*)-->\s*\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
FILE = re.compile(r"# (\w+\.py)$")
EXAMPLE = re.compile(r"^ *>>> ", re.MULTILINE)
STARTS_SPARK = {"spark"}


class Block(NamedTuple):
    line: int
    code: str
    reason: str | None
    """Why the block is skipped; None, if it runs."""

    @property
    def file(self) -> str | None:
        """The file that the reader saves it as, if any."""
        match = FILE.match(self.code.partition("\n")[0])
        return None if match is None else match[1]


def modules_with_examples() -> list[str]:
    paths = [path for path in sorted((ROOT / "src").rglob("*.py")) if EXAMPLE.search(path.read_text())]
    names = [path.relative_to(ROOT / "src").with_suffix("").parts for path in paths]
    return [".".join(parts).removesuffix(".__init__") for parts in names if parts[1] not in STARTS_SPARK]


def python_blocks(text: str) -> list[Block]:
    return [
        Block(text.count("\n", 0, match.start("code")) + 1, match["code"], match["reason"])
        for match in BLOCK.finditer(text)
        if match["language"] == "python"
    ]


def outputs(app: Any, *, every: int = 0, **inputs: list[Any]) -> Any:
    """Run an app on values, or pairs of key and value, and return what it wrote to the topic "out".

    The records of a topic are ``every`` milliseconds apart. The examples in docstrings use this function to stay short.
    """
    with importlib.import_module("millstream.testing").TestDriver(app) as driver:
        for topic, values in inputs.items():
            for number, item in enumerate(values):
                key, value = item if isinstance(item, tuple) else (None, item)
                driver.topic(topic).pipe(value, key=key, timestamp=number * every)
        return driver.topic("out").read_key_values()


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_in_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"outputs": outputs, **{export: getattr(millstream, export) for export in millstream.__all__}}
    result = doctest.testmod(importlib.import_module(name), extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("page", PAGES_WITH_EXAMPLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_on_pages_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("__page__")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # where stored objects find their classes
    names = vars(module)
    blocks = python_blocks(page.read_text())
    for block in blocks:
        if block.file is not None:
            (tmp_path / block.file).write_text(block.code)
        elif block.reason is None:
            program = compile(
                "\n" * (block.line - 1) + block.code, str(page), "exec"
            )  # keeps the line numbers of the page
            with contextlib.redirect_stdout(io.StringIO()):
                exec(program, names)
        else:
            assert block.reason.strip(), f"{page}:{block.line} gives no reason for skipping the block"
    files = [block.file for block in blocks if block.file is not None]
    if files:
        tests = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--disable-plugin-autoload", *files],  # the reader has none of ours
            capture_output=True,
            text=True,
            check=False,
        )
        assert tests.returncode == 0, tests.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_are_valid(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_a_block_is_parsed_with_its_line_and_the_reason_for_skipping_it() -> None:
    text = "# T\n\n```python\na = 1\n```\n\n<!-- not run: needs Kafka -->\n```python\nb\n```\n\n```sh\nls\n```\n"
    assert python_blocks(text) == [Block(4, "a = 1\n", None), Block(9, "b\n", " needs Kafka ")]
