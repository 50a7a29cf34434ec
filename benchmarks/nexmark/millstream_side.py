"""Millstream as a side of Nexmark: an app per query in its own process, with its own Spark, on the embedded log."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as dataset
from benchmarks.nexmark.app import app
from benchmarks.nexmark.load import TOPICS
from benchmarks.nexmark.reference import difference
from benchmarks.nexmark.results import TARGET, rows_of
from benchmarks.processes import cpu_seconds

from millstream.batch.report import BatchReport
from millstream.broker import Broker
from millstream.log import EmbeddedLog

WARM_UP_BATCHES = 2


def run(results: Path) -> None:
    """Run the query that the environment selects until it has caught up, and write its figures to a file."""
    reports: list[BatchReport] = []
    cpu_at_end: list[float] = []

    def on_batch(report: BatchReport) -> None:
        reports.append(report)
        cpu_at_end.append(cpu_seconds([os.getpid()]))

    started_at = time.perf_counter()
    app.run("caught-up", on_batch=on_batch)
    seconds = time.perf_counter() - started_at
    warm = reports[WARM_UP_BATCHES:] or reports
    figures = {
        "records": sum(map(events_of, reports)),
        "records_per_second": sum(map(events_of, warm)) / sum(report.seconds for report in warm),
        "seconds": seconds,
        "batches": len(reports),
        "cpu_seconds": cpu_seconds([os.getpid()]),
        "warm_records": sum(map(events_of, reports[WARM_UP_BATCHES:])),
        "warm_cpu_seconds": cpu_at_end[-1] - cpu_at_end[:WARM_UP_BATCHES][-1],
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


def measure(
    query: str, language: str, backlog: Path, reference: duckdb.DuckDBPyConnection, directory: Path
) -> dict[str, Any]:
    """Run a query in a new process on a copy of the backlog, and compare its result."""
    data, files, results = directory / "data", directory / "files", directory / "results.json"
    shutil.copytree(backlog, data)
    environment = {
        **os.environ,
        "NEXMARK_QUERY": query,
        "NEXMARK_LANGUAGE": language,
        "NEXMARK_FILES": str(files),
        "MILLSTREAM_DATA_DIR": str(data),
    }
    command = [sys.executable, "-m", "benchmarks.nexmark.millstream_side", str(results)]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    figures: dict[str, Any] = json.loads(results.read_text())
    if query == "q10":
        rows = dataset.dataset(files).to_table().to_pylist()
    else:
        with EmbeddedLog(data) as log:
            rows = read_rows(log)
    figures["difference"] = difference(reference, query, rows)
    return figures


if __name__ == "__main__":
    run(Path(sys.argv[1]))
