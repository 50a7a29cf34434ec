"""The long run: kills a victim over and over, and holds what it wrote against an oracle."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from tests.crash.arena import Arena, Mode
from tests.crash.failpoints import POINTS, SETTLING
from tests.crash.laws import Verdict
from tests.crash.power import Disk

from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog

_MODES = "light: without Spark, and quick; behind: the same with state that is written behind"
_ROUND = 10
"""So many trials share a data directory, and with it all that was written before."""


def main() -> int:
    """Run trials and print how many, and what was found wrong."""
    wanted = argparse.ArgumentParser(prog="./dev crash", description=__doc__)
    wanted.add_argument("--trials", type=int, default=300)
    wanted.add_argument("--mode", choices=["light", "behind", "spark"], default="light", help=_MODES)
    wanted.add_argument("--power", action="store_true", help="cut the power of a disk instead; root can do that")
    wanted.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    chosen = wanted.parse_args()
    if chosen.power and chosen.mode == "spark":
        wanted.error("--power goes with --mode light and behind only")
    if chosen.power and os.geteuid() != 0:
        wanted.error("only root can mount the disk that --power needs")
    run = _cuts if chosen.power else _kills
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    total = Verdict()
    done = 0
    with Progress(*columns) as bar:
        task = bar.add_task(f"seed {chosen.seed}", total=chosen.trials)
        for first in range(0, chosen.trials, _ROUND):
            count = min(_ROUND, chosen.trials - first)
            found = run(chosen.seed + first, count, chosen.mode, lambda: bar.advance(task))
            done += count
            _add(total, found)
            if not found.is_good:
                bar.console.print(f"seed {chosen.seed + first}: {'; '.join(found.notes)}")
    print(
        f"N={done} records={total.records} losses={total.losses} duplicates={total.duplicates} "
        f"disagreements={total.disagreements}"
    )
    return 0 if total.is_good else 1


def _kills(seed: int, trials: int, mode: Mode, tick: Callable[[], None]) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="millstream-crash-") as name, EmbeddedLog(Path(name)) as log:
        arena = Arena(Path(name), log, seed, mode)
        for _ in range(trials):
            point = arena.chance.choice([None, *POINTS, *([SETTLING] if mode == "behind" else [])])
            if point is None or mode == "spark":
                arena.kill_at_random(8.0 if mode == "spark" else 2.0)
            else:
                arena.die_at(point)
            tick()
        found = arena.verdict()
        close_environments(Path(name))
        return found


def _cuts(seed: int, trials: int, mode: Mode, tick: Callable[[], None]) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="millstream-crash-") as name, Disk(Path(name)) as disk:
        arena = Arena(disk.place, EmbeddedLog(disk.place), seed, mode)
        for _ in range(trials):
            arena.cut_power_at_random(disk, 2.0)
            tick()
        return arena.verdict()


def _add(total: Verdict, found: Verdict) -> None:
    total.records += found.records
    total.losses += found.losses
    total.duplicates += found.duplicates
    total.disagreements += found.disagreements


if __name__ == "__main__":
    sys.exit(main())
