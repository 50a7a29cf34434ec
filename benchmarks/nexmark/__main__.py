"""Nexmark, the field's common yardstick: an online auction, 23 queries, in Python, in SQL and with Flink SQL.

Each side of a query runs in its own process on the same backlog of events, exactly once; its result is compared with a
batch computation in DuckDB. Millstream runs with caching, on the embedded log; Flink (``--side flink``) reads files and
writes files. The rate is events of the query's topics per second. It leaves out the start: the first two batches of
Millstream, the first fifth of the events of Flink. CPU seconds include the start of Spark and of Flink; those of
``warm`` do not.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import duckdb
from benchmarks.nexmark.app import LANGUAGES, PARTITIONS, queries_of
from benchmarks.nexmark.backlog import Backlog
from benchmarks.nexmark.flink_side import BACKENDS, compile_flink, measure_flink
from benchmarks.nexmark.millstream_side import measure
from benchmarks.nexmark.table import cpu_per_million, warm_cpu_per_million

Figures = dict[str, Any]
FLINK = "flink"
SIDES = (*LANGUAGES, FLINK)


class Measure(Protocol):
    """Run a query in a new process, in an empty directory, and return its figures."""

    def __call__(self, query: str, *, reference: duckdb.DuckDBPyConnection, directory: Path) -> Figures: ...


def sides_of(names: Iterable[str], backlog: Backlog, classes: Path, backend: str) -> dict[str, Measure]:
    """Return how each side is measured; Flink's program is compiled first."""
    sides: dict[str, Measure] = {}
    for name in names:
        if name == FLINK:
            compile_flink(classes)
            sides[name] = partial(measure_flink, classes=classes, files=backlog.files, backend=backend)
        else:
            sides[name] = partial(measure, language=name, backlog=backlog.log)
    return sides


def measure_query(query: str, side: Measure, reference: duckdb.DuckDBPyConnection) -> Figures:
    """Measure a side in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="nexmark-", ignore_cleanup_errors=True) as name:
        return side(query, reference=reference, directory=Path(name))


def line_of(query: str, side: str, figures: Figures) -> str:
    """Return the line of a side."""
    cpu, warm = cpu_per_million(figures), warm_cpu_per_million(figures)
    return (
        f"{query:<8}{side:<10}{figures['records']:>10,}{figures['records_per_second']:>12,.0f}{cpu:>20.1f}"
        f"{'-' if warm is None else format(warm, '.1f'):>8}"
        f"   {figures['difference'] or 'same as DuckDB'}"
    )


def main() -> None:
    """Run the selected queries and print a line for each side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--query", action="append", help="for example q5; default: all")
    parser.add_argument("--side", choices=SIDES, action="append", help="default: python and sql")
    parser.add_argument("--backend", choices=BACKENDS, default=BACKENDS[0], help="the state backend of Flink")
    parser.add_argument("--keep", type=Path, help="keep the events in this directory, for the next run")
    parser.add_argument("--json", type=Path, help="write the results to this file, besides those that it has already")
    arguments = parser.parse_args()
    results: dict[str, Figures] = {}
    if arguments.json and arguments.json.exists():
        results = json.loads(arguments.json.read_text())
    differs = False
    with tempfile.TemporaryDirectory(prefix="nexmark-backlog-") as name:
        backlog = Backlog(arguments.keep or Path(name) / "backlog")
        backlog.prepare(arguments.events, PARTITIONS)
        sides = sides_of(arguments.side or LANGUAGES, backlog, Path(name) / "classes", arguments.backend)
        print(f"{'query':<8}{'side':<10}{'events':>10}{'events/s':>12}{'CPU s per million':>20}{'warm':>8}   result")
        with backlog.reference() as reference:
            for query in arguments.query or queries_of("python"):
                for side in sides:
                    if side in LANGUAGES and query not in queries_of(side):
                        continue
                    figures = results[f"{query} {side}"] = measure_query(query, sides[side], reference)
                    differs = differs or bool(figures["difference"])
                    print(line_of(query, side, figures), flush=True)
                    if arguments.json:
                        arguments.json.write_text(json.dumps(results, indent=2))
    if differs:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
