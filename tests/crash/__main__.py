"""The long run: kills a process again and again, and compares its results with an oracle."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from tests.connectors.sending_systems import SYSTEMS
from tests.connectors.sink_kills import TARGETS
from tests.crash.cluster import APPS, FAULTS, ClusterTrials
from tests.crash.connectors import kill_a_source, kill_the_sinks
from tests.crash.failpoints import COMMITTING_STATES, POINTS
from tests.crash.hosts import is_control_host, namespaces_missing, run_on_control_host
from tests.crash.message_sources import kill_message_sources
from tests.crash.oracle import TrialResult
from tests.crash.power import Disk
from tests.crash.trials import Mode, Trials

from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.testing.kafka import kafka_jars

_MODES = (
    "light: without Spark, and fast; behind: the same with state that is written behind; "
    "cluster: on three hosts, which are network namespaces (requires root); "
    "source: a source of change data under load; messages: sources of files, HTTP and message brokers; "
    "sinks: each sink that claims exactly once"
)
_FAULTS = "for --mode cluster: what fails, in turn: " + "; ".join(f"{name}: {text}" for name, text in FAULTS.items())
_CONNECTORS = {"source": kill_a_source, "messages": kill_message_sources, "sinks": kill_the_sinks}
_ROUND = 10
"""The number of trials that share a data directory."""


def main() -> int:
    """Run trials and print their number and the differences."""
    parser = argparse.ArgumentParser(prog="./dev crash", description=__doc__)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument(
        "--mode", choices=["light", "behind", "spark", "cluster", *_CONNECTORS], default="light", help=_MODES
    )
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS), help=_FAULTS)
    parser.add_argument("--apps", nargs="+", choices=APPS, default=list(APPS), help="for --mode cluster: what runs")
    parser.add_argument("--longest-cut", type=float, default=60.0, help="for --mode cluster: in seconds, from 5 on")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for --mode cluster: no fault after these")
    parser.add_argument(
        "--source", choices=("postgres", "mariadb", "mysql"), default="postgres", help="for --mode source"
    )
    parser.add_argument(
        "--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), help="for --mode messages: which sources"
    )
    parser.add_argument(
        "--sinks", nargs="+", choices=TARGETS, default=list(TARGETS), help="for --mode sinks: which of them"
    )
    parser.add_argument("--rows", type=int, default=2_000, help="for --mode source: rows that a snapshot reads")
    parser.add_argument("--rate", type=int, default=800, help="for --mode source: changes of rows per second")
    parser.add_argument("--pause", type=float, default=0.3, help="for --mode source: the longest time before a kill")
    parser.add_argument("--kafka", action="store_true", help="for --mode source: write to Kafka, and lose disks too")
    parser.add_argument("--power", action="store_true", help="cut the power of a disk instead (requires root)")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    arguments = parser.parse_args()
    if arguments.power and arguments.mode == "spark":
        parser.error("--power requires --mode light or behind")
    if arguments.power and os.geteuid() != 0:
        parser.error("--power requires root, to mount a disk")
    if arguments.mode == "cluster":
        return _cluster(arguments)
    if arguments.mode in _CONNECTORS:
        return _CONNECTORS[arguments.mode](arguments)
    run = _cuts if arguments.power else _kills
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    total = TrialResult()
    done = 0
    with Progress(*columns) as bar:
        task = bar.add_task(f"seed {arguments.seed}", total=arguments.trials)
        for first in range(0, arguments.trials, _ROUND):
            count = min(_ROUND, arguments.trials - first)
            result = run(arguments.seed + first, count, arguments.mode, lambda: bar.advance(task))
            done += count
            _add(total, result)
            if not result.is_correct:
                bar.console.print(f"seed {arguments.seed + first}: {'; '.join(result.notes)}")
    return _verdict(done, total)


def _kills(seed: int, count: int, mode: Mode, tick: Callable[[], None]) -> TrialResult:
    with tempfile.TemporaryDirectory(prefix="millstream-crash-") as name, EmbeddedLog(Path(name)) as log:
        trials = Trials(Path(name), log, seed, mode)
        for _ in range(count):
            point = trials.rng.choice([None, *POINTS, *([COMMITTING_STATES] if mode == "behind" else [])])
            if point is None or mode == "spark":
                trials.kill_at_random(8.0 if mode == "spark" else 2.0)
            else:
                trials.die_at(point)
            tick()
        result = trials.result()
        close_environments(Path(name))
        return result


def _cuts(seed: int, count: int, mode: Mode, tick: Callable[[], None]) -> TrialResult:
    with tempfile.TemporaryDirectory(prefix="millstream-crash-") as name, Disk(Path(name)) as disk:
        trials = Trials(disk.path, EmbeddedLog(disk.path), seed, mode)
        for _ in range(count):
            trials.cut_power_at_random(disk, 2.0)
            tick()
        return trials.result()


def _cluster(arguments: argparse.Namespace) -> int:
    """Run trials on hosts that fail; this process starts itself again on the control host of their network."""
    with tempfile.TemporaryDirectory(prefix="millstream-crash-") as name:
        if not is_control_host():
            reason = namespaces_missing()
            if reason is not None:
                print(f"skipped: {reason}")
                return 0
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the hosts are removed
            kafka_jars()  # the control host reaches no package registry
            return run_on_control_host(["-m", "tests.crash", *sys.argv[1:], "--seed", str(arguments.seed)], Path(name))
        print(f"seed {arguments.seed}", flush=True)
        deadline = time.monotonic() + arguments.seconds
        trials = ClusterTrials(
            Path(name), arguments.seed, apps=arguments.apps, longest_cut=arguments.longest_cut, log=_print_with_time
        )
        try:
            for number in range(arguments.trials):
                result = trials.run(arguments.faults[number % len(arguments.faults)])
                if not result.is_correct or time.monotonic() > deadline:
                    break
            return _verdict(number + 1, result)
        finally:
            print("until the next committed batch:", *trials.recovery_times(), sep="\n", flush=True)
            trials.close()


def _print_with_time(text: str) -> None:
    print(f"{time.strftime('%X')} {text}", flush=True)


def _verdict(trials: int, total: TrialResult) -> int:
    print(
        f"N={trials} records={total.records} losses={total.losses} duplicates={total.duplicates} "
        f"disagreements={total.disagreements}",
        *total.notes,
        sep="\n",
    )
    return 0 if total.is_correct else 1


def _add(total: TrialResult, result: TrialResult) -> None:
    total.records += result.records
    total.losses += result.losses
    total.duplicates += result.duplicates
    total.disagreements += result.disagreements


if __name__ == "__main__":
    sys.exit(main())
