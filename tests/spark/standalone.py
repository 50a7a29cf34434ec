"""A Spark standalone cluster for tests: a master, and workers on loopback addresses with separate state directories."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyspark

_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Standalone:
    """A running master, and workers that can be added and killed; worker n is the host 127.0.0.(n + 1)."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[str]] = {}
        arguments = ("--port", "0", "--webui-port", "0")
        self.url = self._start("master", "127.0.0.1", "master.Master", *arguments, ready=r"(spark://[\d.]+:\d+)")

    def add_worker(self, number: int, cores: int = 1) -> None:
        """Start a worker and wait until the master knows it."""
        host = f"127.0.0.{number + 1}"
        self._start(
            f"worker{number}", host, "worker.Worker", "--cores", str(cores), "--memory", "1g", "--webui-port", "0",
            "--work-dir", str(self._directory / f"work{number}"), self.url, ready="(Successfully registered)",
        )  # fmt: skip

    def state_dir(self, number: int) -> Path:
        """Return the directory in which a worker's executors keep state."""
        return self._directory / f"state{number}"

    def lose_host(self, number: int) -> None:
        """Kill a worker with all its processes, and delete its disk."""
        self._kill(self._processes.pop(f"worker{number}"))
        for directory in (self.state_dir(number), self._directory / f"work{number}"):
            shutil.rmtree(directory, ignore_errors=True)

    def close(self) -> None:
        for process in self._processes.values():
            self._kill(process)

    def _start(self, name: str, host: str, kind: str, *arguments: str, ready: str) -> str:
        """Start a process and wait until it logs what ``ready`` matches."""
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": host,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_JAVA_OPTS": _JVM,
            "SPARK_DAEMON_MEMORY": "256m",
            "MILLSTREAM_STATE_DIR": str(self._directory / name.replace("worker", "state")),
        }
        program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        process = self._processes[name] = subprocess.Popen(
            [program, f"org.apache.spark.deploy.{kind}", "--host", host, *arguments],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            match = re.search(ready, line)
            if match:
                threading.Thread(target=_read_to_end, args=(process.stdout,), daemon=True).start()
                return str(match[1])
        raise AssertionError(f"{name} did not start")

    def _kill(self, process: subprocess.Popen[str]) -> None:
        for descendant in [*descendants(process.pid), process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(descendant, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def standalone(directory: Path, workers: int) -> Iterator[Standalone]:
    """Run a cluster with some workers of one core."""
    cluster = Standalone(directory)
    try:
        for number in range(1, workers + 1):
            cluster.add_worker(number)
        yield cluster
    finally:
        cluster.close()


def descendants(process: int) -> list[int]:
    """Return the processes that a process has started, directly or not."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    family = [process]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    return family[1:]


def _read_to_end(output: IO[str]) -> None:
    with output:
        output.read()
