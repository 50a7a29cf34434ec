"""One broker in a separate process."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import secrets
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from millstream.testing.kafka.artifacts import NoKafkaError
from millstream.testing.kafka.class_archive import java_command, run_java

_STARTED = "Kafka Server started"
_META_PROPERTIES = "meta.properties"
_START_SECONDS = 180.0
_STOP_SECONDS = 30.0
_PR_SET_PDEATHSIG = 1
_FIRST_PORT = 10_000
_FIRST_PORT_OF_CLIENTS = 32_768
_LOGGING = """\
<Configuration status="ERROR">
  <Appenders><Console name="out"><PatternLayout pattern="%d %p %c: %m%n"/></Console></Appenders>
  <Loggers>
    <Root level="WARN"><AppenderRef ref="out"/></Root>
    <Logger name="kafka.server.KafkaRaftServer" level="INFO"/>
    <Logger name="kafka.server.KafkaConfig" level="ERROR"/>
  </Loggers>
</Configuration>
"""


def _die_with_parent() -> None:
    """Make the kernel kill this process when its parent dies; only Linux supports that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port() -> int:
    """Return a free port of the loopback interface.

    It is below those that the system gives to clients: a connection could take one of them before the server listens.
    """
    while True:
        port = _FIRST_PORT + secrets.randbelow(_FIRST_PORT_OF_CLIENTS - _FIRST_PORT)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def new_uuid() -> str:
    """Return a new id as Kafka writes it; one that starts with a dash would be taken for an option."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")


class Machine(Protocol):
    """Where brokers run if not on the loopback interface, for example a network namespace."""

    @property
    def address(self) -> str: ...

    @property
    def directory(self) -> Path: ...

    def command(self, command: Sequence[str | Path], /) -> list[str]:
        """Return a command that runs on the machine."""


class Node:
    """A broker with its own directory and settings, which can be killed and started again."""

    def __init__(
        self,
        id: int,
        directory: Path,
        properties: Mapping[str, object],
        *,
        long_running: bool = False,
        machine: Machine | None = None,
    ) -> None:
        self.id = id
        self.directory = directory
        self.process: subprocess.Popen[bytes] | None = None
        self._long_running = long_running
        self._machine = machine
        self._properties = {**properties, "log.dirs": directory / "data"}
        self._settings = directory / "server.properties"

    @property
    def log(self) -> Path:
        """The file with the output of the broker."""
        return self.directory / "server.log"

    def format(self, cluster: str, arguments: Sequence[str] = ()) -> None:
        """Create and format the directory, which a broker requires before its first start."""
        self._make_directory()
        run_java("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(self._settings), *arguments)

    def format_as(self, formatted: Mapping[str, bytes]) -> None:
        """Format the directory with the files of another broker of the cluster, which saves the start of a JVM."""
        self._make_directory()
        for name, content in formatted.items():
            path = self.directory / "data" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        properties = self.directory / "data" / _META_PROPERTIES
        own = {"node.id": str(self.id), "directory.id": new_uuid()}
        pairs = (line.partition("=") for line in properties.read_text().splitlines())
        properties.write_text("".join(f"{name}{equals}{own.get(name, value)}\n" for name, equals, value in pairs))

    def formatted(self) -> dict[str, bytes]:
        """Return the files of the directory that ``format`` has created."""
        data = self.directory / "data"
        return {str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()}

    def _make_directory(self) -> None:
        self.directory.mkdir(parents=True)
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in self._properties.items()))
        (self.directory / "log4j2.xml").write_text(_LOGGING)

    def start(self, *, detached: bool = False, options: Sequence[str] = ()) -> None:
        """Start the process with options for Java; ``wait_until_started`` waits until it is ready."""
        self.log.write_text("")
        logging = f"-Dlog4j2.configurationFile=file:{self.directory / 'log4j2.xml'}"
        command = java_command(
            "kafka.Kafka",
            str(self._settings),
            options=("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", logging, *options),
            long_running=self._long_running,
        )
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command if self._machine is None else self._machine.command(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=detached,
                preexec_fn=None if detached else _die_with_parent,  # noqa: PLW1509 - one system call, no locks
            )

    def wait_until_started(self) -> None:
        """Wait until the broker is ready; raise with its last output if it does not start."""
        assert self.process is not None
        deadline = time.monotonic() + _START_SECONDS
        while _STARTED not in (output := self.log.read_text(errors="replace")):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise NoKafkaError(f"the broker did not start: {output.strip()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Terminate the broker and wait until it has ended."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
            self.process = None

    def kill(self) -> None:
        """Kill the broker at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def freeze(self) -> None:
        """Suspend the process of the broker until ``thaw``."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume the process of a frozen broker."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
