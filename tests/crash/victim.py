"""The process that is killed: it recovers, waits for the word ``go``, then runs until it dies or is drained.

``light`` runs the same batches without Spark, one app after the other, and starts in a second; ``behind`` does the
same with state that is written behind, as a resident task does. ``cluster`` runs on Spark at once, without waiting;
``standby`` does so when the run of the first app is gone.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from pathlib import Path

from tests.cli.running import run_to_end
from tests.crash.topologies import CHOSEN
from tests.kafka.hosts import Host

_stopping = threading.Event()


def main() -> None:
    """Print ``recovered`` when everything is processed, and continue after ``go`` on standard input."""
    signal.signal(signal.SIGTERM, lambda *_: _stopping.set())
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("millstream.admin").setLevel(logging.INFO)  # what a standby waits for
    if sys.argv[1] == "cluster":
        _run_on_spark()
    elif sys.argv[1] == "standby":
        if CHOSEN[0].stand_by(lambda step: print(step, flush=True)):
            print("taking over", flush=True)
            _run_on_spark()
    elif sys.argv[1] == "spark":
        _spark()
    else:
        _light(behind=sys.argv[1] == "behind")
    print("drained", flush=True)


def _light(*, behind: bool) -> None:
    if os.environ.get("MILLSTREAM_BROKER"):
        _on_kafka(os.environ["MILLSTREAM_BROKER"], behind=behind)
        return
    durable = "MILLSTREAM_CRASH_DURABLE" in os.environ
    for app in CHOSEN:
        run_to_end(app, behind=behind, durable=durable)
    print("recovered", flush=True)
    if sys.stdin.readline().strip() == "go":
        while not _stopping.is_set():
            for app in CHOSEN:
                run_to_end(app, behind=behind, durable=durable)


def _on_kafka(url: str, *, behind: bool) -> None:
    hosts = [Host(app, url, Path(app.data_dir), behind=behind) for app in CHOSEN]
    for host in hosts:
        host.run()
    print("recovered", flush=True)
    if sys.stdin.readline().strip() == "go":
        while not _stopping.is_set():
            for host in hosts:
                host.run()


def _spark() -> None:
    for run in [app.start("caught-up") for app in CHOSEN]:
        run.wait()
    print("recovered", flush=True)
    if sys.stdin.readline().strip() == "go":
        _run_on_spark()


def _run_on_spark() -> None:
    runs = [app.start() for app in CHOSEN]
    while not _stopping.wait(0.1) and all(run.is_alive for run in runs):
        pass
    for run in runs:
        run.stop()
    for run in runs:
        run.wait()


if __name__ == "__main__":
    main()
