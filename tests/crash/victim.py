"""The process that is killed: recovers, waits for a word, then runs until it dies or is told to drain.

``light`` runs the same batches without Spark, one app after the other, and starts in a second.
"""

from __future__ import annotations

import signal
import sys
import threading

from tests.cli.running import run_to_end
from tests.crash.topologies import CHOSEN


def main() -> None:
    """Say ``recovered`` when all there is has been processed, and go on when told so."""
    run = _light if sys.argv[1:] == ["light"] else _spark
    run()
    print("drained", flush=True)


def _light() -> None:
    for app in CHOSEN:
        run_to_end(app)
    print("recovered", flush=True)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    if sys.stdin.readline().strip() == "go":
        while not stopping.is_set():
            for app in CHOSEN:
                run_to_end(app)


def _spark() -> None:
    for run in [app.start("caught-up") for app in CHOSEN]:
        run.wait()
    print("recovered", flush=True)
    if sys.stdin.readline().strip() != "go":
        return
    runs = [app.start() for app in CHOSEN]

    def drain(*_: object) -> None:
        for run in runs:
            run.stop()

    signal.signal(signal.SIGTERM, drain)
    for run in runs:
        while not run.wait(0.2):  # short waits, so that the signal is heard
            pass


if __name__ == "__main__":
    main()
