"""All benchmarks in one go: one table, the same as JSON, and a picture for the README.

Each benchmark runs in a process of its own, one after the other, and nothing else should run beside them: at the end
the table says how busy the machine was. ``--only`` runs some, ``--draw`` draws the picture from the last figures.
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

from benchmarks.picture import Bar, Panel, drawn

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "benchmarks.json"
PICTURE = ROOT / "docs" / "img" / "benchmarks.svg"
BENCHMARKS = ("log", "operators", "zone_counts", "end_to_end", "latency", "replay")


class Row(NamedTuple):
    """A line of the table: where its figure stands, and what it should be at least or, for times, at most."""

    benchmark: str
    path: tuple[str, ...]
    unit: str
    target: float | None = None
    is_time: bool = False

    @property
    def title(self) -> str:
        return ", ".join(part for part in self.path if part != "records_per_second")

    def found(self, figures: Mapping[str, Any]) -> float | None:
        """Return the figure, if its benchmark was run."""
        found: Any = figures.get(self.benchmark, {})
        for part in self.path:
            found = found.get(part, {})
        return None if found == {} else float(found)


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
    _time("end_to_end", "real-time", "p50", target=10),
    _time("end_to_end", "real-time", "p99", target=50),
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


def measured(name: str, directory: Path) -> dict[str, Any]:
    """Run one benchmark, let it print what it prints, and return its figures."""
    file = directory / f"{name}.json"
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(file)]
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT}/src"})
    figures: dict[str, Any] = json.loads(file.read_text())
    return figures


def show(figures: Mapping[str, Any]) -> None:
    """Print the table."""
    print(f"\n{'benchmark':<13}{'figure':<36}{'found':>12}{'target':>12}  {'unit':<10}")
    for row in ROWS:
        found = row.found(figures)
        if found is None:
            continue
        is_met = row.target is None or (found <= row.target if row.is_time else found >= row.target)
        target = "" if row.target is None else f"{row.target:,.0f}"
        print(
            f"{row.benchmark:<13}{row.title:<36}{_readable(found):>12}{target:>12}  "
            f"{row.unit:<10}{'' if is_met else 'missed'}"
        )
    print(f"\nload of the machine at the end: {figures.get('load', 'unknown')} (this run alone makes one or two)")


def _readable(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 1_000 or figure == int(figure) else f"{figure:.1f}"


def panels(figures: Mapping[str, Any]) -> list[Panel]:
    """Return what is compared with a peer, as far as it was measured."""
    found = (
        Panel(
            "Rides per zone and minute, exactly once: records per second (more is better)",
            _bars(figures, "zone_counts"),
        ),
        Panel(
            "A batch of one record over two levels: milliseconds (less is better)",
            _bars(figures, "latency", only="two levels"),
        ),
    )
    return [panel for panel in found if panel.bars]


def _bars(figures: Mapping[str, Any], benchmark: str, only: str = "") -> tuple[Bar, ...]:
    rows = [row for row in ROWS if row.benchmark == benchmark and only in row.title]
    found = ((row.title, row.found(figures)) for row in rows)
    return tuple(Bar(title, figure, "millstream" in title) for title, figure in found if figure is not None)


def main() -> None:
    """Run the benchmarks, keep their figures, print the table and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=BENCHMARKS, action="append", help="run this one; may be repeated")
    parser.add_argument("--draw", action="store_true", help="run nothing, draw and print the last figures again")
    arguments = parser.parse_args()
    figures: dict[str, Any] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    chosen = () if arguments.draw else arguments.only or BENCHMARKS
    directory = ROOT / "build" / "benchmarks"
    directory.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(chosen, 1):
        print(f"\n[{number}/{len(chosen)}] {name}", flush=True)
        figures[name] = measured(name, directory)
        figures |= {"at": time.strftime("%Y-%m-%d"), "load": round(os.getloadavg()[0], 1)}
        FIGURES.write_text(json.dumps(figures, indent=2, sort_keys=True) + "\n")
    show(figures)
    if compared := panels(figures):
        PICTURE.write_text(drawn(compared))


if __name__ == "__main__":
    main()
