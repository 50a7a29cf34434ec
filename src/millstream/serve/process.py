"""The web server in a process of its own, with a low priority: what its clients do does not reach the app.

In the process of the app, requests would compete with the driver for the interpreter, its memory and its files. The
socket is bound here and inherited, so that a used port is an error at once and a server that died is replaced while
clients wait. Settings and secrets go through a pipe, not through arguments, which all users of the host can read; the
end of the pipe ends the server, however this process ends.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from millstream.serve.address import WebAddress
from millstream.serve.endpoint import Endpoint

_log = logging.getLogger(__name__)
_CLOSE_SECONDS = 5.0
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 1.0, 60.0
_STALL_SECONDS = 30.0
_MAX_MEMORY = 2 << 30


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the process of a server has to know."""

    data_dir: str
    broker_url: str | None
    descriptor: int
    hosts: tuple[str, ...]
    token: str | None
    csrf: str
    cookie: str
    login_code: str | None
    stall_seconds: float
    """The longest time that the evaluation of what a user has written may take before the process ends."""
    max_memory: int
    """What it may allocate; a request that needs more is refused. Files of the log and of tables do not count."""


class WebProcess:
    """The dashboard and API of one data directory, served by another process until ``close``."""

    def __init__(
        self,
        data_dir: Path,
        broker_url: str | None = None,
        address: WebAddress | None = None,
        *,
        hosts: Sequence[str] = (),
        requires_token: bool = True,
    ) -> None:
        self._data_dir, self._broker_url = data_dir, broker_url
        self._endpoint = Endpoint.open(data_dir, address, hosts=hosts, requires_token=requires_token)
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self.url, self.login_url = self._endpoint.url, self._endpoint.login_url
        self.token_file = self._endpoint.token_file
        self._process = self._start()
        self._thread = threading.Thread(target=self._supervise, name="millstream-web", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """The id of the process that serves."""
        return self._process.pid

    def _start(self) -> subprocess.Popen[bytes]:
        credentials, descriptor = self._endpoint.credentials, self._endpoint.socket.fileno()
        settings = Settings(
            data_dir=str(self._data_dir),
            broker_url=self._broker_url,
            descriptor=descriptor,
            hosts=self._endpoint.hosts,
            token=credentials.token,
            csrf=credentials.csrf,
            cookie=credentials.cookie,
            login_code=credentials.login_code,
            stall_seconds=_STALL_SECONDS,
            max_memory=_MAX_MEMORY,
        )
        credentials.login_code = None  # a server that replaces this one must not accept the code a second time
        process = subprocess.Popen(
            [sys.executable, "-m", "millstream.serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[descriptor],
            process_group=0,  # Ctrl-C is meant for this process; a new session would undo the low priority
        )
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, which _supervise reports
            process.stdin.write(msgspec.json.encode(settings) + b"\n")
            process.stdin.flush()
        return process

    def _supervise(self) -> None:
        """Replace a server that ends; the pauses grow, since a cause that stays would end the next one as well."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            code = self._process.wait()
            if self._closing.is_set():
                return
            _log.error("the dashboard ended with exit code %d; it starts again in %.0f s", code, pause)
            if self._closing.wait(pause):
                return
            pause = min(pause * 2, _MAX_PAUSE_SECONDS)
            with self._lock:
                if self._closing.is_set():
                    return
                _close_input(self._process)
                self._process = self._start()

    def close(self) -> None:
        """Stop listening, and end the process; one that does not end in time is killed, which loses nothing."""
        with self._lock:
            self._closing.set()
            process = self._process
        _close_input(process)
        try:
            process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._thread.join()
        self._endpoint.socket.close()


def _close_input(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it has ended before it read its settings
        process.stdin.close()
