"""The results of a comparison as lines for a terminal and, with ``python -m benchmarks.peers.table FILE``, as Markdown.

FILE was written by ``--json``; the Markdown table has the throughput and the latency of a side in one row.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

Result = Mapping[str, Any]


class Column(NamedTuple):
    """A metric: its name in the results, its title, and its format."""

    name: str
    title: str
    format_spec: str

    def cell(self, result: Result) -> str:
        """Return the formatted value; an empty string, if there is none."""
        value = result.get(self.name)
        return "" if value is None else format(value, self.format_spec)


_COLUMNS = (
    Column("records", "records", ","),
    Column("records_per_second", "records/s", ",.0f"),
    Column("from_start", "from start", ",.0f"),
    Column("cpu_seconds", "cpu s/1M", ".1f"),
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
    """Return the column titles for a terminal."""
    return " " * sum(width for _, width in _NAMES) + "".join(f"{column.title:>{_WIDTH}}" for column in _COLUMNS)


def line(result: Result) -> str:
    """Return a result as a line for a terminal."""
    names = "".join(f"{result.get(name, ''):<{width}}" for name, width in _NAMES)
    if "failure" in result:
        return f"{names}failed: {result['failure']}"
    return names + "".join(f"{column.cell(result):>{_WIDTH}}" for column in _COLUMNS)


def markdown(results: Iterable[Result]) -> str:
    """Return a Markdown table with a row for each side and variant."""
    names = [name for name, _ in _NAMES[1:]]
    sides: dict[tuple[str, ...], dict[str, Any]] = {}
    for result in results:
        if result["measure"] != "reading":
            sides.setdefault(tuple(result[name] for name in names), {}).update(result)
    rows = [[*names, *(column.title for column in _COLUMNS)], ["---"] * (len(names) + len(_COLUMNS))]
    rows += [[*side, *(column.cell(result) for column in _COLUMNS)] for side, result in sides.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Print the Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    print(markdown(json.loads(parser.parse_args().file.read_text())))


if __name__ == "__main__":
    main()
