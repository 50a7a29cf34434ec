"""Every verb is documented in docs/streams.md, in the section of its handle, and every row there is a verb.

A verb is a public method of a handle. Its table row starts with its call, ``| `filter(predicate)` | …``; elsewhere in
the section the call alone, ```emit("final")```, is enough. A new handle needs an entry in ``SECTIONS``.
"""

import inspect
import re
from pathlib import Path

import pytest

from millstream.dsl.cogrouped import CogroupedStream, WindowedCogroup
from millstream.dsl.grouped import GroupedStream
from millstream.dsl.grouped_table import GroupedTable
from millstream.dsl.splitter import Splitter
from millstream.dsl.stream import Stream
from millstream.dsl.table import Table
from millstream.dsl.windowed import WindowedStream

PAGE = Path(__file__).parent.parent / "docs" / "streams.md"
SECTIONS: dict[str, tuple[type, ...]] = {
    "Verbs of a stream": (Stream, Splitter),
    "Verbs of a grouped stream": (GroupedStream, WindowedStream),
    "Verbs of cogrouped streams": (CogroupedStream, WindowedCogroup),
    "Verbs of a table": (Table,),
    "Verbs of a grouped table": (GroupedTable,),
}
"""The handles of each section; every row of its table is a verb of one of them."""


def section(title: str) -> str:
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert match is not None, f"docs/streams.md has no section {title!r}"
    return match[1]


def verbs(handle: type) -> set[str]:
    return {name for name, member in inspect.getmembers(handle, inspect.isfunction) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("title", "handle"),
    [(title, handle) for title, handles in SECTIONS.items() for handle in handles],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_every_verb_is_documented(title: str, handle: type) -> None:
    mentioned = set(re.findall(r"\b(\w+)\(", section(title)))
    missing = sorted(verbs(handle) - mentioned)
    assert not missing, f"document in docs/streams.md, section {title!r}: {', '.join(missing)}"


@pytest.mark.parametrize("title", SECTIONS)
def test_every_row_is_a_verb(title: str) -> None:
    rows = set(re.findall(r"^\| `(\w+)\(", section(title), re.MULTILINE))
    assert rows
    assert rows <= set().union(*map(verbs, SECTIONS[title]))
