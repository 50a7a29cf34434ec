"""The process that is killed: recovers, waits for a word, then runs until it dies."""

from __future__ import annotations

import sys

from tests.crash.topologies import APPS


def main() -> None:
    """Say ``recovered`` when all there is has been processed, and go on when told so."""
    runs = [app.start("caught-up") for app in APPS]
    for run in runs:
        run.wait()
    print("recovered", flush=True)
    if sys.stdin.readline().strip() != "go":
        return
    for run in [app.start() for app in APPS]:
        run.wait()


if __name__ == "__main__":
    main()
