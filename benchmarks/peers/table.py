"""The figures of a comparison as lines for a terminal and, by ``python -m benchmarks.peers.table FILE``, for the book.

FILE is what ``--json`` has written; the table of the book has the throughput and the latency of a side in one line.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

Figures = Mapping[str, Any]


class Column(NamedTuple):
    """A figure: where it stands, what it is called, and how it is written."""

    name: str
    title: str
    form: str

    def cell(self, figures: Figures) -> str:
        """Return the figure, nothing if it is not there."""
        found = figures.get(self.name)
        return "" if found is None else format(found, self.form)


_COLUMNS = (
    Column("records", "records", ","),
    Column("records_per_second", "records/s", ",.0f"),
    Column("from_start", "from start", ",.0f"),
    Column("processor_seconds", "cpu s/1M", ".1f"),
    Column("updates", "updates", ","),
    Column("missing", "missing", ".1%"),
    Column("extra", "extra", ".1%"),
    Column("p50_ms", "p50 ms", ",.0f"),
    Column("p95_ms", "p95 ms", ",.0f"),
    Column("p99_ms", "p99 ms", ",.0f"),
    Column("not_seen", "not seen", ".1%"),
)
_NAMES = (("measure", 12), ("side", 15), ("variant", 14), ("guarantee", 15))
_WIDTH = 11


def head() -> str:
    """Return the heads of the columns for a terminal."""
    return " " * sum(width for _, width in _NAMES) + "".join(f"{column.title:>{_WIDTH}}" for column in _COLUMNS)


def line(figures: Figures) -> str:
    """Return a part of the comparison as a line for a terminal."""
    names = "".join(f"{figures.get(name, ''):<{width}}" for name, width in _NAMES)
    if "failure" in figures:
        return f"{names}did not end: {figures['failure']}"
    return names + "".join(f"{column.cell(figures):>{_WIDTH}}" for column in _COLUMNS)


def markdown(found: Iterable[Figures]) -> str:
    """Return a table for the book, with a line for each side and variant."""
    names = [name for name, _ in _NAMES[1:]]
    sides: dict[tuple[str, ...], dict[str, Any]] = {}
    for figures in found:
        if figures["measure"] != "reading":
            sides.setdefault(tuple(figures[name] for name in names), {}).update(figures)
    rows = [[*names, *(column.title for column in _COLUMNS)], ["---"] * (len(names) + len(_COLUMNS))]
    rows += [[*side, *(column.cell(figures) for column in _COLUMNS)] for side, figures in sides.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Print the table for the book."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    print(markdown(json.loads(parser.parse_args().file.read_text())))


if __name__ == "__main__":
    main()
