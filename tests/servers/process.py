"""A server in a process of its own that listens on one port of the loopback interface."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.servers.debian import NoServerError

from millstream.testing.kafka.node import free_port

_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.02
_PR_SET_PDEATHSIG = 1


class ServerProcess:
    """A server that can be stopped, killed and started again on the same port, with the same directory."""

    start_seconds = 60.0

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> Sequence[str | Path]:
        """Return the command that runs the server in the foreground."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """Return variables that the server needs."""
        return {}

    def is_ready(self) -> bool:
        """Return whether the server accepts connections."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=2).close()
        except OSError:
            return False
        return True

    def start(self) -> None:
        """Start the server and wait until it is ready."""
        self.directory.mkdir(parents=True, exist_ok=True)
        log = self.directory / "server.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(part) for part in self.command()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.directory,
                env={**os.environ, **self.environment()},
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call, no locks
            )
        for _ in range(int(self.start_seconds / _POLL_SECONDS)):
            try:
                self._process.wait(_POLL_SECONDS)
            except subprocess.TimeoutExpired:
                if self.is_ready():
                    return
            else:
                break
        self.kill()
        raise NoServerError(f"{type(self).__name__} did not start: {log.read_text(errors='replace')[-2000:]}")

    def stop(self) -> None:
        """Terminate the server and wait until it has ended."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_STOP_SECONDS)
            self._process = None

    def kill(self) -> None:
        """Kill the server at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
