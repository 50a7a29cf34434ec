"""Flink SQL as a side of Nexmark: a job per query in one JVM, which reads files and writes files, exactly once.

The rate leaves out the first events, as Millstream's leaves out its first batches, and ends when no operator receives
records any longer: the last checkpoint, for which a job waits up to a second, is not counted against Flink.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from string import Template
from typing import Any

import duckdb
import msgspec
from benchmarks.nexmark.reference import REFERENCES, Row, difference
from benchmarks.peers.environments import flink_jars
from benchmarks.peers.java import compile_job, flink_java

SQL = Path(__file__).with_name("flink_sql")
BACKENDS = ("hashmap", "rocksdb")
_SERVICES = {
    "org.apache.flink.table.factories.Factory": ("ChangelogFiles", "LookupFile"),
    "org.apache.flink.metrics.reporter.MetricReporterFactory": ("Progress",),
}


class FlinkFailedError(Exception):
    """A job failed; the message contains the end of its output."""


def compile_flink(classes: Path) -> None:
    """Compile the program, and register what Flink finds by name."""
    compile_job("nexmark", classes, flink_jars())
    services = classes / "META-INF" / "services"
    services.mkdir(parents=True)
    for interface, names in _SERVICES.items():
        (services / interface).write_text("".join(f"{name}\n" for name in names))


def measure_flink(
    query: str, classes: Path, files: Path, reference: duckdb.DuckDBPyConnection, directory: Path, backend: str
) -> dict[str, Any]:
    """Run the job of a query until it has read all events, and compare its result."""
    statements = "".join((SQL / name).read_text() for name in ("sources.sql", f"{query}.sql"))
    results, figures = directory / "results", directory / "figures.json"
    text = Template(statements).substitute(events=files, results=results)
    (directory / "query.sql").write_text(text)
    records = events_read(query, reference)
    command = flink_java(classes, "FlinkNexmark", heap="4g", jars=flink_jars())
    command += [str(directory / "query.sql"), str(figures), str(directory / "checkpoints"), backend, str(records)]
    command += [str(records // 5)]
    run = subprocess.run(command, check=False, env=os.environ, capture_output=True, text=True)
    if run.returncode or not figures.exists():
        raise FlinkFailedError(f"{query}: {(run.stdout + run.stderr)[-3000:]}")
    result: dict[str, Any] = json.loads(figures.read_text())
    result["difference"] = difference(reference, query, final_rows(query, read_lines(results)))
    return result


def events_read(query: str, reference: duckdb.DuckDBPyConnection) -> int:
    """Return the number of events that the sources of a query hold; a table that is read twice counts once."""
    topics = set(re.findall(r"(?:FROM|JOIN|TABLE) (person|auction|bid)\b", (SQL / f"{query}.sql").read_text()))
    return sum(reference.sql(f"SELECT count(*) FROM {topic}").fetchall()[0][0] for topic in topics)


def read_lines(directory: Path) -> Iterator[str]:
    """Read the lines of results, those of a task in their order: a file is ``part-TASK-NUMBER``."""
    for path in sorted(directory.glob("part-*"), key=lambda path: (path.name.rpartition("-")[0], number_of(path))):
        with path.open() as lines:
            yield from lines


def number_of(path: Path) -> int:
    """Return the number of a file of results."""
    return int(path.name.rpartition("-")[2])


def final_rows(query: str, lines: Iterable[str]) -> list[Row]:
    """Apply changes and return the rows that are left, with the columns of the reference."""
    key = REFERENCES[query].key
    if query in LISTS:
        return LISTS[query](remaining(lines))
    if not key:
        return list(remaining(lines))
    rows: dict[tuple[Any, ...], Row] = {}
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    for line in lines:
        row = decode(line[1:])
        name = tuple(row[column] for column in key)
        if line[0] == "+":
            rows[name] = row
        else:
            rows.pop(name, None)
    return list(rows.values())


def remaining(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Return the rows that were added more often than removed."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    counts: Counter[str] = Counter()
    for line in lines:
        counts[line[1:]] += 1 if line[0] == "+" else -1
    return (decode(line) for line in counts.elements())


def leaders(rows: Iterable[Row]) -> list[Row]:
    """Group what has the highest number of a window, of which each is a row in SQL."""
    names: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for row in rows:
        name = row["name"] if "name" in row else [row["auction"], row["bidder"], row["time"]]
        names[row["start"], row["number"]].append(name)
    return [{"start": start, "number": number, "names": sorted(group)} for (start, number), group in names.items()]


def top_prices(rows: Iterable[Row]) -> list[Row]:
    """Group the highest prices of an auction, of which each is a row in SQL."""
    prices: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        prices[row["auction"]].append(row["price"])
    return [{"auction": auction, "prices": sorted(group, reverse=True)} for auction, group in prices.items()]


LISTS = {"q5": leaders, "q7": leaders, "q19": top_prices}
