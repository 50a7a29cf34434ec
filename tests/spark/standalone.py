"""A Spark standalone cluster for tests: a master, and workers on machines with separate state directories."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import pyspark

from millstream.testing.kafka.node import Machine

_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class LoopbackMachine:
    """A machine that is only a loopback address and a directory."""

    def __init__(self, number: int, directory: Path) -> None:
        self.address = f"127.0.0.{number}"
        self.directory = directory / self.address

    def command(self, command: Sequence[str | Path]) -> list[str]:
        return [str(part) for part in command]


class Standalone:
    """A running master, and workers that can be started and killed."""

    def __init__(self, machine: Machine, options: str = "") -> None:
        """Start the master; ``options`` are for its JVM and those of the workers."""
        self._options = f"{_JVM} {options}"
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._machine = machine
        self.url = self._start_master(0)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the master."""
        host, _, port = self.url.removeprefix("spark://").partition(":")
        return host, int(port)

    def _start_master(self, port: int) -> str:
        arguments = ("--port", str(port), "--webui-port", "0")
        return self._start(self._machine, "master.Master", *arguments, ready=r"(spark://[\d.]+:\d+)")

    def restart_master(self) -> None:
        """Kill the master and start another at its address, which knows no app."""
        self.kill_worker(self._machine)
        self._start_master(self.address[1])

    def start_worker(self, machine: Machine, cores: int = 1) -> None:
        """Start a worker and wait until the master knows it."""
        self._start(
            machine, "worker.Worker", "--cores", str(cores), "--memory", f"{cores}g", "--webui-port", "0",
            "--work-dir", str(machine.directory / "spark"), self.url, ready="(Successfully registered)",
        )  # fmt: skip

    def kill_worker(self, machine: Machine) -> None:
        """Kill a worker with its executors."""
        process = self._processes.pop(machine.address)
        for descendant in [*descendants(process.pid), process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(descendant, signal.SIGKILL)
        process.wait()

    def lose_worker(self, machine: Machine) -> None:
        """Kill a worker with its executors, and delete the disk of its machine."""
        self.kill_worker(machine)
        shutil.rmtree(machine.directory, ignore_errors=True)

    def close(self) -> None:
        for process in self._processes.values():
            for descendant in [*descendants(process.pid), process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(descendant, signal.SIGKILL)
            process.wait()

    def _start(self, machine: Machine, kind: str, *arguments: str, ready: str) -> str:
        """Start a process and wait until it logs what ``ready`` matches."""
        machine.directory.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": machine.address,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_JAVA_OPTS": self._options,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(machine.directory / "local"),
            "MILLSTREAM_STATE_DIR": str(machine.directory / "state"),
        }
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        command: list[str | Path] = [program, f"org.apache.spark.deploy.{kind}", "--host", machine.address, *arguments]
        process = self._processes[machine.address] = subprocess.Popen(
            machine.command(command), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            match = re.search(ready, line)
            if match:
                threading.Thread(target=_read_to_end, args=(process.stdout,), daemon=True).start()
                return str(match[1])
        raise AssertionError(f"{kind} did not start on {machine.address}: {''.join(lines)[-2000:]}")


@contextlib.contextmanager
def standalone(directory: Path, secret: str | None = None) -> Iterator[Standalone]:
    """Run the master of a cluster on the loopback interface; its hosts share a secret, if one is given."""
    options = "" if secret is None else f"-Dspark.authenticate=true -Dspark.authenticate.secret={secret}"
    cluster = Standalone(LoopbackMachine(1, directory), options)
    try:
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
