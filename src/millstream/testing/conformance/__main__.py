"""The command line that replays conformance cases."""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from pathlib import Path

import msgspec

from millstream.testing.conformance.cases import read_cases
from millstream.testing.conformance.on_spark import replay_on_spark, replay_whole, sample
from millstream.testing.conformance.replay import Outcome, replay


def main() -> None:
    """Replay cases and print how many passed, by group; exit with 1 unless all passed."""
    parser = argparse.ArgumentParser(prog="python -m millstream.testing.conformance", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=".jsonl or .jsonl.gz")
    parser.add_argument("--group", help="only groups with this prefix")
    parser.add_argument("--case", help="only the case with this id")
    parser.add_argument(
        "--engine", choices=("driver", "spark"), default="driver", help="the engine that runs the cases"
    )
    parser.add_argument("--sample", action="store_true", help="only some cases of each group, for Spark")
    parser.add_argument(
        "--whole", action="store_true", help="on Spark: the cases with a single input topic, each as one batch"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per case")
    arguments = parser.parse_args()
    cases = [
        case
        for file in arguments.files
        for case in read_cases(file)
        if case.group.startswith(arguments.group or "") and arguments.case in (None, case.id)
    ]
    cases = sample(cases) if arguments.sample else cases
    if arguments.whole:
        outcomes = list(replay_whole(cases))
    else:
        outcomes = [replay_on_spark(case) if arguments.engine == "spark" else replay(case) for case in cases]
    if arguments.json:
        for outcome in outcomes:
            print(msgspec.json.encode(outcome).decode())
    else:
        _print_table(outcomes)
    sys.exit(0 if outcomes and all(outcome.status == "passed" for outcome in outcomes) else 1)


def _print_table(outcomes: list[Outcome]) -> None:
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        groups[outcome.group][outcome.status] += 1
        if outcome.status == "failed":
            print(f"{outcome.case}\n  " + "\n  ".join(outcome.differences))
        elif outcome.drops:
            groups[outcome.group]["drops"] += 1
    total: Counter[str] = Counter()
    print(f"{'group':<36}{'passed':>8}{'failed':>8}{'unsupported':>13}{'other drops':>13}")
    for group, counts in groups.items():
        total.update(counts)
        print(_line(group, counts))
    print(_line("all", total))


def _line(name: str, counts: Counter[str]) -> str:
    columns = f"{counts['passed']:>8}{counts['failed']:>8}{counts['unsupported']:>13}{counts['drops']:>13}"
    return f"{name:<36}{columns}"


if __name__ == "__main__":
    main()
