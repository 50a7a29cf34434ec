"""The command line that replays conformance cases."""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from millstream.testing.batch_driver import MODES
from millstream.testing.conformance.cases import Case, read_cases
from millstream.testing.conformance.on_spark import replay_on_spark, replay_whole, sample
from millstream.testing.conformance.partitioned import draw, replay_partitioned, settings_of
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
        "--partitions",
        type=int,
        nargs="+",
        default=[],
        metavar="N",
        help="compare by key on N partitions what Kafka Streams guarantees there; on Spark each case is one batch",
    )
    parser.add_argument(
        "--mode", choices=MODES, nargs="+", default=["single"], help="the execution modes on Spark with --partitions"
    )
    parser.add_argument(
        "--random", type=int, metavar="N", help="with --partitions: only N cases, drawn from those that are comparable"
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed of --random")
    parser.add_argument("--json", action="store_true", help="print one JSON object per case")
    arguments = parser.parse_args()
    cases = [
        case
        for file in arguments.files
        for case in read_cases(file)
        if case.group.startswith(arguments.group or "") and arguments.case in (None, case.id)
    ]
    cases = sample(cases) if arguments.sample else cases
    if arguments.random is not None:
        print(f"{arguments.random} of {len(cases)} cases, seed {arguments.seed}", file=sys.stderr)
    outcomes = list(_outcomes(cases, arguments))
    if arguments.json:
        for outcome in outcomes:
            print(msgspec.json.encode(outcome).decode())
    else:
        _print_table(outcomes)
    statuses = {outcome.status for outcome in outcomes}
    sys.exit(0 if "passed" in statuses and statuses <= {"passed", "not comparable"} else 1)


def _outcomes(cases: list[Case], arguments: argparse.Namespace) -> Iterator[Outcome]:
    if not arguments.partitions:
        yield from (replay_on_spark(case) if arguments.engine == "spark" else replay(case) for case in cases)
    for partitions in arguments.partitions:
        chosen = cases if arguments.random is None else draw(cases, partitions, arguments.random, arguments.seed)
        if arguments.engine == "spark":
            for mode in arguments.mode:
                yield from replay_whole(chosen, partitions, mode)
        else:
            settings = ((case, setting) for case in chosen for setting in settings_of(case, partitions))
            yield from (replay_partitioned(case, setting) for case, setting in settings)


def _print_table(outcomes: list[Outcome]) -> None:
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        groups[outcome.group][outcome.status] += 1
        if outcome.status == "failed":
            print(f"{outcome.case}\n  " + "\n  ".join(outcome.differences))
        elif outcome.drops:
            groups[outcome.group]["drops"] += 1
    total: Counter[str] = Counter()
    print(f"{'group':<36}{'passed':>8}{'failed':>8}{'unsupported':>13}{'not comparable':>16}{'other drops':>13}")
    for group, counts in groups.items():
        total.update(counts)
        print(_line(group, counts))
    print(_line("all", total))
    reasons = Counter(outcome.differences[0] for outcome in outcomes if outcome.status == "not comparable")
    for reason, count in reasons.most_common():
        print(f"{count} not comparable: {reason}")


def _line(name: str, counts: Counter[str]) -> str:
    columns = f"{counts['passed']:>8}{counts['failed']:>8}{counts['unsupported']:>13}"
    columns += f"{counts['not comparable']:>16}{counts['drops']:>13}"
    return f"{name:<36}{columns}"


if __name__ == "__main__":
    main()
