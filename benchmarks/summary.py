"""Run all benchmarks: one table, the same as JSON, and a chart for the documentation.

Each benchmark runs in its own process, one after the other. Nothing else should run on the machine at the same time;
the table ends with the load average. ``--only`` runs some, ``--draw`` draws the chart from the last results.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.chart import Bar, Panel, chart_svg

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "benchmarks.json"
CHART = ROOT / "docs" / "img" / "benchmarks.svg"
BENCHMARKS = ("log", "operators", "zone_counts", "end_to_end", "latency", "replay")


class Row(NamedTuple):
    """A row of the table: the path of its value in the results, and the target: a minimum or, for times, a maximum."""

    benchmark: str
    path: tuple[str, ...]
    unit: str
    target: float | None = None
    is_time: bool = False

    @property
    def title(self) -> str:
        return ", ".join(part for part in self.path if part != "records_per_second")

    def value(self, results: Mapping[str, Any]) -> float | None:
        """Return the measured value; None, if the benchmark was not run."""
        value: Any = results.get(self.benchmark, {})
        for part in self.path:
            value = value.get(part, {})
        return None if value == {} else float(value)


def _rate(benchmark: str, *path: str, target: float | None = None) -> Row:
    return Row(benchmark, path, "records/s", target)


def _time(benchmark: str, *path: str, target: float | None = None) -> Row:
    return Row(benchmark, path, "ms", target, is_time=True)


def _count(benchmark: str, *path: str) -> Row:
    return Row(benchmark, path, "", 0, is_time=True)


ROWS = (
    _rate("log", "append", target=1e6),
    _rate("log", "read as Arrow", target=1e7),
    _rate("log", "read as Python records", target=1.5e6),
    _rate("log", "produce one by one", target=2e5),
    _time("log", "wake-up p50 ms", target=10),
    _rate("operators", "stateless chain of 5", target=6e5),
    _rate("operators", "count", target=4e5),
    _rate("operators", "tumbling count", target=3e5),
    _rate("operators", "hopping count, 5 windows", target=8e4),
    _rate("operators", "sliding count", target=6e4),
    _rate("operators", "session count", target=1.5e5),
    _rate("operators", "stream-table join", target=3e5),
    _rate("operators", "stream-stream join", target=1.2e5),
    _rate("operators", "table-table join", target=1.5e5),
    _rate("operators", "foreign-key join", target=8e4),
    _rate("zone_counts", "millstream, every update", "records_per_second", target=4e5),
    _rate("zone_counts", "millstream, caching", "records_per_second", target=5e5),
    _rate("zone_counts", "structured streaming", "records_per_second"),
    _time("end_to_end", "resident", "p50", target=10),
    _time("end_to_end", "resident", "p99", target=50),
    _time("end_to_end", "parallel (forced)", "p50", target=100),
    _time("latency", "millstream, one level, single"),
    _time("latency", "millstream, two levels, single"),
    _time("latency", "millstream, one level, parallel"),
    _time("latency", "millstream, two levels, parallel"),
    _time("latency", "structured streaming, one level"),
    _time("latency", "structured streaming, two levels"),
    _count("replay", "windows that differ"),
    _count("replay", "late"),
)


def run_benchmark(name: str, directory: Path) -> dict[str, Any]:
    """Run one benchmark, which prints its own output, and return its results."""
    path = directory / f"{name}.json"
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(path)]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT}/src"})
    results: dict[str, Any] = json.loads(path.read_text())
    return results


def show(results: Mapping[str, Any]) -> None:
    """Print the table."""
    print(f"\n{'benchmark':<13}{'metric':<36}{'measured':>12}{'target':>12}  {'unit':<10}")
    for row in ROWS:
        value = row.value(results)
        if value is None:
            continue
        is_met = row.target is None or (value <= row.target if row.is_time else value >= row.target)
        target = "" if row.target is None else f"{row.target:,.0f}"
        print(
            f"{row.benchmark:<13}{row.title:<36}{_readable(value):>12}{target:>12}  "
            f"{row.unit:<10}{'' if is_met else 'missed'}"
        )
    print(f"\nload average at the end: {results.get('load', 'unknown')} (the benchmarks alone account for one or two)")


def _readable(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 or value == int(value) else f"{value:.1f}"


def panels(results: Mapping[str, Any]) -> list[Panel]:
    """Return the comparisons with peers, as far as they were measured."""
    candidates = (
        Panel(
            "Rides per zone and minute, exactly once: records per second (higher is better)",
            _bars(results, "zone_counts"),
        ),
        Panel(
            "A batch of one record over two levels: milliseconds (lower is better)",
            _bars(results, "latency", only="two levels"),
        ),
    )
    return [panel for panel in candidates if panel.bars]


def _bars(results: Mapping[str, Any], benchmark: str, only: str = "") -> tuple[Bar, ...]:
    rows = [row for row in ROWS if row.benchmark == benchmark and only in row.title]
    values = ((row.title, row.value(results)) for row in rows)
    return tuple(Bar(title, value, "millstream" in title) for title, value in values if value is not None)


def main() -> None:
    """Run the benchmarks, store their results, print the table and draw the chart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=BENCHMARKS, action="append", help="run only this benchmark; may be repeated")
    parser.add_argument("--draw", action="store_true", help="run nothing; print and draw the last results")
    arguments = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    selected = () if arguments.draw else arguments.only or BENCHMARKS
    directory = ROOT / "build" / "benchmarks"
    directory.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(selected, 1):
        print(f"\n[{number}/{len(selected)}] {name}", flush=True)
        results[name] = run_benchmark(name, directory)
        results |= {"at": time.strftime("%Y-%m-%d"), "load": round(os.getloadavg()[0], 1)}
        RESULTS.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
    show(results)
    if comparisons := panels(results):
        CHART.write_text(chart_svg(comparisons))


if __name__ == "__main__":
    main()
