"""``python -m millstream.testing.ksql FILE… [--only TEXT] [--failures]``: run cases and print the counts by group."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from millstream.testing.ksql.cases import Case, read_cases
from millstream.testing.ksql.rest import run_rest
from millstream.testing.ksql.running import Outcome, run_queries
from millstream.testing.ksql.script import run_script

KINDS = ("positives", "refusals", "registry")
SUITES = {"qtt": run_queries, "rest": run_rest, "script": run_script}


def main() -> int:
    """Run the cases of the files; return 1 if one of them failed or was refused, 2 if there was none to run."""
    parser = argparse.ArgumentParser(prog="python -m millstream.testing.ksql", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--suite", default="qtt", choices=SUITES, help="the suite to run (default: qtt)")
    parser.add_argument("--only", default="", help="run the cases whose id or group contains this text")
    parser.add_argument("--failures", action="store_true", help="print the cases that do not pass")
    options = parser.parse_args()
    groups: dict[str, Counter[str]] = {}
    for path in options.files:
        for case in read_cases(path):
            if case.suite != options.suite or not (options.only in case.id or options.only in case.group):
                continue
            counts = groups.setdefault(case.group, Counter())
            outcome = SUITES[case.suite](case)
            _count(counts, case, outcome)
            if options.failures and outcome.verdict != "passed":
                print(f"{outcome.verdict} {case.id}: {outcome.reason}"[:700])
    _print(groups)
    total = sum(groups.values(), Counter())
    if not any(total[kind] for kind in KINDS):
        return 2
    return int(any(total[f"{kind} {verdict}"] for kind in KINDS for verdict in ("failed", "refused")))


def _count(counts: Counter[str], case: Case, outcome: Outcome) -> None:
    kind = "registry" if case.needs_registry else "refusals" if case.is_refusal else "positives"
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
        f"   errors {refused} of {refusals} ({counts['refusals exceeded']} exceeded)"
        f"   registry {counts['registry passed']} of {counts['registry']}"
    )


if __name__ == "__main__":
    sys.exit(main())
