"""The results of Nexmark as Markdown: ``python -m benchmarks.nexmark.table FILE``, which was written by ``--json``.

A row has the events per second of Millstream and Flink, their CPU seconds per million events with and without the
start, and what Flink needs in relation to Millstream; a number above 1 is in favour of Millstream.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Figures = Mapping[str, Any]
_TITLES = ("query", "events/s", "Flink", "ratio", "CPU s per million", "Flink", "ratio", "warm", "Flink", "ratio")


def markdown(results: Mapping[str, Figures]) -> str:
    """Return a row for each query that both sides have run."""
    queries = sorted({name.split()[0] for name in results}, key=lambda query: int(query[1:]))
    rows = [
        row_of(query, results[f"{query} python"], results[f"{query} flink"])
        for query in queries
        if {f"{query} python", f"{query} flink"} <= results.keys()
    ]
    lines = [_TITLES, ("---",) * len(_TITLES), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def row_of(query: str, ours: Figures, theirs: Figures) -> tuple[str, ...]:
    """Return the cells of a query."""
    rates = [figures["records_per_second"] for figures in (ours, theirs)]
    cells = [query, *(f"{round(rate, -3):,.0f}" for rate in rates), f"{rates[0] / rates[1]:.1f}"]
    return (*cells, *costs(*map(cpu_per_million, (ours, theirs))), *costs(*map(warm_cpu_per_million, (ours, theirs))))


def costs(ours: float | None, theirs: float | None) -> tuple[str, str, str]:
    """Return the cells of two costs and their ratio, empty where one is not known."""
    if ours is None or theirs is None:
        return "", "", ""
    return f"{ours:.1f}", f"{theirs:.1f}", f"{theirs / ours:.1f}"


def cpu_per_million(figures: Figures) -> float:
    """Return the CPU seconds of a million events, including the start."""
    return float(figures["cpu_seconds"] / figures["records"] * 1e6)


def warm_cpu_per_million(figures: Figures) -> float | None:
    """Return the CPU seconds of a million events after the start; None if the start was all."""
    if not figures["warm_records"]:
        return None
    return float(figures["warm_cpu_seconds"] / figures["warm_records"] * 1e6)


if __name__ == "__main__":
    print(markdown(json.loads(Path(sys.argv[1]).read_text())))
