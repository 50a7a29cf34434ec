"""The command line that runs random topologies in many ways."""

from __future__ import annotations

import argparse
import sys
import time

import msgspec

from millstream.testing.conformance.cases import Case
from millstream.testing.fuzz.checking import difference_of, is_valid
from millstream.testing.fuzz.generating import random_case
from millstream.testing.fuzz.shrinking import shrunk

_PROGRESS_SECONDS = 30.0


def main() -> None:
    """Run random topologies and print those whose results differ; exit with 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m millstream.testing.fuzz", description=__doc__)
    parser.add_argument("--topologies", type=int, default=200, help="how many to run")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first one")
    parser.add_argument("--ways", type=int, default=2, help="how many other ways to run each of them")
    arguments = parser.parse_args()
    failures, shown = 0, time.monotonic()
    seeds = range(arguments.seed, arguments.seed + arguments.topologies)
    for seed in seeds:
        report = failure_of(seed, arguments.ways)
        if report is not None:
            failures += 1
            print(report, flush=True)
        if time.monotonic() - shown > _PROGRESS_SECONDS:
            shown = time.monotonic()
            print(f"{seed - arguments.seed + 1} topologies, {failures} differ", file=sys.stderr, flush=True)
    print(f"{len(seeds)} topologies, seeds {seeds.start} to {seeds.stop - 1}: {failures} differ")
    sys.exit(1 if failures else 0)


def failure_of(seed: int, ways: int = 2) -> str | None:
    """Return a report of the case of a seed, shrunk, if its results differ; None if they agree."""
    case = random_case(seed)
    difference = _difference(case, seed, ways)
    if difference is None:
        return None
    small = shrunk(case, lambda smaller: is_valid(smaller) and _difference(smaller, seed, ways) is not None)
    lines = [f"seed {seed}: {_difference(small, seed, ways)}"]
    lines += [f"   {msgspec.json.encode(node).decode()}" for node in small.topology]
    lines += [f"   {msgspec.json.encode(step).decode()}" for step in small.steps]
    return "\n".join(lines)


def _difference(case: Case, seed: int, ways: int) -> str | None:
    try:
        return difference_of(case, seed, ways)
    except Exception as error:  # an error is a difference as well
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
