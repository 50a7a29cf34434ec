"""Nexmark, the field's common yardstick: an online auction, 22 queries, in Python and in SQL.

Each query runs in its own process with its own Spark on the same backlog of events, exactly once, with caching, on the
embedded log; its result is compared with a batch computation in DuckDB. The rate is events of the query's topics per
second, over all batches except the first two, which start the workers; CPU seconds include the start of Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as dataset
from benchmarks.nexmark.app import LANGUAGES, PARTITIONS, app, queries_of
from benchmarks.nexmark.load import TOPICS, create_topics, load
from benchmarks.nexmark.model import events
from benchmarks.nexmark.reference import database, difference
from benchmarks.nexmark.results import TARGET, rows_of
from benchmarks.processes import cpu_seconds

from millstream.batch.report import BatchReport
from millstream.broker import Broker
from millstream.log import EmbeddedLog

WARM_UP_BATCHES = 2


def run(results: Path) -> None:
    """Run the query that the environment selects until it has caught up, and write its figures to a file."""
    reports: list[BatchReport] = []
    started_at = time.perf_counter()
    app.run("caught-up", on_batch=reports.append)
    seconds = time.perf_counter() - started_at
    warm = reports[WARM_UP_BATCHES:] or reports
    figures = {
        "records": sum(map(events_of, reports)),
        "records_per_second": sum(map(events_of, warm)) / sum(report.seconds for report in warm),
        "seconds": seconds,
        "batches": len(reports),
        "cpu_seconds": cpu_seconds([os.getpid()]),
    }
    results.write_text(json.dumps(figures))


def events_of(report: BatchReport) -> int:
    """Return the number of events that a batch has read, without what it has read of topics between its steps."""
    return sum(range_.stop - range_.start for range_ in report.plan.ranges if range_.topic in TOPICS)


def read_rows(broker: Broker) -> list[dict[str, Any]]:
    """Return the results of a query, partition by partition."""
    values: list[bytes | None] = []
    for partition, offsets in enumerate(broker.offsets(TARGET)):
        for chunk in broker.read(TARGET, partition, offsets.begin, offsets.end):
            values += chunk.block.column(1).to_pylist()
    return list(rows_of(values))


def measure(query: str, language: str, backlog: Path, reference: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """Run a query in a new process on a copy of the backlog, and compare its result."""
    with tempfile.TemporaryDirectory(prefix="nexmark-", ignore_cleanup_errors=True) as name:
        directory = Path(name) / "data"
        shutil.copytree(backlog, directory)
        environment = {
            **os.environ,
            "NEXMARK_QUERY": query,
            "NEXMARK_LANGUAGE": language,
            "NEXMARK_FILES": str(Path(name) / "files"),
            "MILLSTREAM_DATA_DIR": str(directory),
        }
        results = Path(name) / "results.json"
        command = [sys.executable, "-m", "benchmarks.nexmark", "--run", str(results)]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        figures: dict[str, Any] = json.loads(results.read_text())
        if query == "q10":
            rows = dataset.dataset(Path(name) / "files").to_table().to_pylist()
        else:
            with EmbeddedLog(directory) as log:
                rows = read_rows(log)
        figures["difference"] = difference(reference, query, rows)
    return figures


def main() -> None:
    """Run the selected queries and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--query", action="append", help="for example q5; default: all")
    parser.add_argument("--language", choices=LANGUAGES, action="append")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        run(arguments.run)
        return
    results: dict[str, dict[str, Any]] = {}
    print(f"{'query':<8}{'language':<10}{'events':>10}{'events/s':>12}{'CPU s per million':>20}   result")
    with tempfile.TemporaryDirectory(prefix="nexmark-backlog-") as name:
        generated = list(events(arguments.events))
        with EmbeddedLog(Path(name)) as log:
            create_topics(log, PARTITIONS)
            load(log, generated, PARTITIONS)
        reference = database(generated)
        del generated
        for language in arguments.language or LANGUAGES:
            for query in queries_of(language):
                if arguments.query and query not in arguments.query:
                    continue
                figures = results[f"{query} {language}"] = measure(query, language, Path(name), reference)
                cpu = figures["cpu_seconds"] / figures["records"] * 1e6
                print(
                    f"{query:<8}{language:<10}{figures['records']:>10,}{figures['records_per_second']:>12,.0f}{cpu:>20.1f}"
                    f"   {figures['difference'] or 'same as DuckDB'}",
                    flush=True,
                )
                if arguments.json:
                    arguments.json.write_text(json.dumps(results, indent=2))
    if any(figures["difference"] for figures in results.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
