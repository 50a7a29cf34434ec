"""A broker to play with: ``up`` starts it and leaves it running, ``down`` stops it and forgets its records."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from millstream.testing.kafka.artifacts import NoKafkaError, cache_dir
from millstream.testing.kafka.cluster import Cluster

_STOP_SECONDS = 20.0


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="kafka", description=__doc__)
    parser.add_argument("command", choices=["up", "down"])
    parser.add_argument("--port", type=int, default=9092, help="where the broker listens (9092)")
    arguments = parser.parse_args()
    place = cache_dir() / "kafka-to-play-with"
    try:
        return _up(place, arguments.port) if arguments.command == "up" else _down(place)
    except NoKafkaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _up(place: Path, port: int) -> int:
    process = _running(place)
    if process is not None:
        print(f"it runs already (process {process}); stop it with: down")
        return 1
    shutil.rmtree(place, ignore_errors=True)
    cluster = Cluster(directory=place, port=port, long_running=True).start(detached=True)
    started = cluster.nodes[0].process
    assert started is not None
    (place / "process").write_text(str(started.pid))
    print(f"Kafka runs at {cluster.url}\ntry: export MILLSTREAM_BROKER={cluster.url}")
    return 0


def _down(place: Path) -> int:
    process = _running(place)
    if process is None:
        print("it does not run")
        return 1
    os.kill(process, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while _running(place) is not None and time.monotonic() < deadline:
        time.sleep(0.1)
    if _running(place) is not None:
        os.kill(process, signal.SIGKILL)
    shutil.rmtree(place, ignore_errors=True)
    print("stopped, and its records are gone")
    return 0


def _running(place: Path) -> int | None:
    """Return the process of our broker; a number that another program has got since is not taken for it."""
    try:
        process = int((place / "process").read_text())
        os.kill(process, 0)
        command = Path(f"/proc/{process}/cmdline")
        is_ours = not command.exists() or str(place) in command.read_text()
    except (FileNotFoundError, ValueError, ProcessLookupError, PermissionError):
        return None
    return process if is_ours else None


if __name__ == "__main__":
    sys.exit(main())
