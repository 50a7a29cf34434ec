"""``python -m millstream.testing.ksql FILE… [--only TEXT] [--failures]``: run cases and print the counts by group."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from millstream.testing.ksql.cases import Case, read_cases
from millstream.testing.ksql.running import Outcome, run_case


def main() -> None:
    """Run the cases of the files."""
    parser = argparse.ArgumentParser(prog="python -m millstream.testing.ksql", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--suite", default="qtt", help="the suite to run (default: qtt)")
    parser.add_argument("--only", default="", help="run the cases whose id or group contains this text")
    parser.add_argument("--failures", action="store_true", help="print the cases that do not pass")
    options = parser.parse_args()
    groups: dict[str, Counter[str]] = {}
    for path in options.files:
        for case in read_cases(path):
            if case.suite != options.suite or not (options.only in case.id or options.only in case.group):
                continue
            counts = groups.setdefault(case.group, Counter())
            if case.needs_registry:
                counts["registry"] += 1
                continue
            outcome = run_case(case)
            _count(counts, case, outcome)
            if options.failures and outcome.verdict != "passed":
                print(f"{outcome.verdict} {case.id}: {outcome.reason}"[:700])
    _print(groups)


def _count(counts: Counter[str], case: Case, outcome: Outcome) -> None:
    kind = "refusals" if case.is_refusal else "positives"
    counts[kind] += 1
    counts[f"{kind} {outcome.verdict}"] += 1


def _print(groups: dict[str, Counter[str]]) -> None:
    total: Counter[str] = Counter()
    for group, counts in sorted(groups.items()):
        total += counts
        print(f"{group:<55} {_line(counts)}")
    print(f"{'all':<55} {_line(total)}")


def _line(counts: Counter[str]) -> str:
    passed, positives = counts["positives passed"], counts["positives"]
    refused, refusals = counts["refusals passed"], counts["refusals"]
    return (
        f"{passed:>4} of {positives:<4} ({counts['positives failed']} failed, {counts['positives refused']} refused)"
        f"   errors {refused} of {refusals} ({counts['refusals exceeded']} exceeded)   registry {counts['registry']}"
    )


if __name__ == "__main__":
    main()
