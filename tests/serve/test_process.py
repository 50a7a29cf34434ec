"""The web server as a process of its own: what reaches it does not reach the process that started it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.errors import StateError
from millstream.log import EmbeddedLog
from millstream.serve import process
from millstream.serve.__main__ import NICENESS
from millstream.serve.address import WebAddress
from millstream.serve.process import WebProcess


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "data"
    EmbeddedLog(path).close()
    return path


@pytest.fixture(scope="module")
def server(data_dir: Path) -> Iterator[WebProcess]:
    server = WebProcess(data_dir, address=WebAddress(port=0))
    yield server
    server.close()


def get_topics(server: WebProcess) -> int:
    assert server.token_file is not None
    headers = {"Authorization": f"Bearer {server.token_file.read_text().strip()}"}
    request = urllib.request.Request(f"{server.url}/api/topics", headers=headers)
    return int(urllib.request.urlopen(request, timeout=30).status)


def has_ended(pid: int, seconds: float = 30.0) -> bool:
    """Whether a process ends in time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    waiting = select.poll()  # select takes no descriptor beyond 1,023, and a process with many tests has more
    waiting.register(descriptor, select.POLLIN)
    ended = waiting.poll(seconds * 1000)
    os.close(descriptor)
    return bool(ended)


def test_requests_are_served_by_a_process_of_low_priority(server: WebProcess) -> None:
    assert get_topics(server) == 200
    assert server.pid != os.getpid()
    assert os.getpriority(os.PRIO_PROCESS, server.pid) >= min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)


def test_no_secret_is_in_the_arguments_of_the_process(server: WebProcess) -> None:
    assert server.token_file is not None
    arguments = Path(f"/proc/{server.pid}/cmdline").read_text()
    assert server.token_file.read_text().strip() not in arguments
    assert server.login_url.rpartition("=")[2] not in arguments


@pytest.mark.crash
def test_a_server_that_died_is_replaced_and_knows_its_clients(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process, "_FIRST_PAUSE_SECONDS", 0.1)
    server = WebProcess(data_dir, address=WebAddress(port=0))
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    browser.open(server.login_url, timeout=30).close()
    first = server.pid
    os.kill(first, signal.SIGKILL)
    assert has_ended(first)
    assert browser.open(f"{server.url}/api/topics", timeout=30).status == 200  # waits in the queue of the socket
    assert server.pid != first
    assert "the dashboard ended with exit code -9" in caplog.text
    with pytest.raises(urllib.error.HTTPError, match="401"):  # the link is not valid a second time
        urllib.request.urlopen(server.login_url, timeout=30)
    server.close()


def test_signals_of_the_terminal_are_left_to_the_process_that_started_it(server: WebProcess) -> None:
    assert get_topics(server) == 200
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(server.pid, number)
    assert get_topics(server) == 200


def test_a_used_port_is_an_error_at_once(server: WebProcess, data_dir: Path) -> None:
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(StateError, match=f"cannot listen on 127.0.0.1:{port}"):
        WebProcess(data_dir, address=WebAddress(port=port))


@pytest.mark.crash
def test_the_server_ends_with_the_process_that_started_it_even_if_that_is_killed(data_dir: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from millstream.serve.address import WebAddress;"
        "from millstream.serve.process import WebProcess;"
        "server = WebProcess(Path(sys.argv[1]), address=WebAddress(port=0));"
        "print(server.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        pid = int(started.stdout.readline())
        started.kill()
    assert has_ended(pid)
