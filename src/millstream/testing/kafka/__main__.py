"""A Kafka broker for experiments: ``up`` starts it in the background, ``down`` stops it and deletes its records."""

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
    parser.add_argument("--port", type=int, default=9092, help="the port of the broker (9092)")
    arguments = parser.parse_args()
    directory = cache_dir() / "kafka-to-play-with"
    try:
        return _up(directory, arguments.port) if arguments.command == "up" else _down(directory)
    except NoKafkaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _up(directory: Path, port: int) -> int:
    process = _running_process(directory)
    if process is not None:
        print(f"Kafka is already running (process {process}); stop it with: down")
        return 1
    shutil.rmtree(directory, ignore_errors=True)
    cluster = Cluster(directory=directory, port=port, long_running=True).start(detached=True)
    started = cluster.nodes[0].process
    assert started is not None
    (directory / "process").write_text(str(started.pid))
    print(f"Kafka is running at {cluster.url}\ntry: export MILLSTREAM_BROKER={cluster.url}")
    return 0


def _down(directory: Path) -> int:
    process = _running_process(directory)
    if process is None:
        print("Kafka is not running")
        return 1
    os.kill(process, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while _running_process(directory) is not None and time.monotonic() < deadline:
        time.sleep(0.1)
    if _running_process(directory) is not None:
        os.kill(process, signal.SIGKILL)
    shutil.rmtree(directory, ignore_errors=True)
    print("stopped Kafka and deleted its records")
    return 0


def _running_process(directory: Path) -> int | None:
    """Return the process id of our broker, None if another program has that id now."""
    try:
        process = int((directory / "process").read_text())
        os.kill(process, 0)
        command = Path(f"/proc/{process}/cmdline")
        is_ours = not command.exists() or str(directory) in command.read_text()
    except (FileNotFoundError, ValueError, ProcessLookupError, PermissionError):
        return None
    return process if is_ours else None


if __name__ == "__main__":
    sys.exit(main())
