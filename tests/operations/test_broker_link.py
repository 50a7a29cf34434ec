from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.cli.running import run_to_end
from tests.serve.conftest import fill, serving, words_app

from millstream.broker import Broker
from millstream.errors import BrokerUnavailableError
from millstream.foundation.storage import close_environments
from millstream.operations import broker_link
from millstream.operations.broker_link import BrokerLink

AT_ONCE_SECONDS = 5  # the client of Kafka tries for twenty


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Yield a port that accepts connections and never answers, as a broker that is stuck."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def timed(served: Any, path: str) -> tuple[float, int, str]:
    began = time.monotonic()
    response = served.client.get(path)
    return time.monotonic() - began, response.status_code, response.text


@pytest.mark.parametrize("kind", ["refused", "silent"])
def test_pages_are_rendered_at_once_without_their_broker(tmp_path: Path, silent_port: int, kind: str) -> None:
    fill(tmp_path)
    run_to_end(words_app(tmp_path))
    port = 1 if kind == "refused" else silent_port
    served = serving(tmp_path, broker_url=f"kafka://127.0.0.1:{port}")
    message = f"The broker 127.0.0.1:{port} cannot be reached"
    app = "app=words-app"
    for path in (
        "/",
        f"/topology?{app}",
        f"/history?{app}",
        "/tables",
        f"/time?{app}",
        f"/dead-letters?{app}",
        "/alerts",
    ):
        seconds, status, page = timed(served, path)
        assert (status, message in page) == (200, True), path
        assert seconds < AT_ONCE_SECONDS, path
    for path in ("/topics", "/groups"):
        seconds, status, page = timed(served, path)
        assert (status, message in page, "data-reload" in page) == (503, True, True), path
        assert seconds < AT_ONCE_SECONDS, path
    assert not served.site.progress.current().is_broker_available
    assert served.site.progress.current().apps["words-app"] > 0
    served.site.watch.stop()
    served.site.directory.close()
    close_environments(tmp_path)


class SlowBroker:
    """A broker whose topics are listed only after ``responds`` is set."""

    def __init__(self) -> None:
        self.responds = threading.Event()
        self.asked = threading.Semaphore(0)
        self.is_closed = threading.Event()

    def topic_names(self) -> list[str]:
        self.asked.release()
        self.responds.wait(60)
        return []

    def close(self) -> None:
        self.is_closed.set()


def test_a_broker_is_used_again_when_it_responds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_PATIENCE_SECONDS", "_FRESH_SECONDS", "_RETRY_SECONDS"):
        monkeypatch.setattr(broker_link, name, 0.05)
    broker = SlowBroker()
    link = BrokerLink(lambda: cast("Broker", broker), "kafka://user:secret@host:9092?password=x", is_remote=True)
    with pytest.raises(BrokerUnavailableError, match=r"^the broker host:9092 cannot be reached; ") as refused:
        _ = link.broker
    assert "secret" not in str(refused.value)
    began = time.monotonic()
    for _ in range(100):  # while a check is running, no request waits for it, and none starts another
        with pytest.raises(BrokerUnavailableError):
            _ = link.broker
    assert time.monotonic() - began < AT_ONCE_SECONDS
    assert broker.asked.acquire(blocking=False)
    assert not broker.asked.acquire(blocking=False)
    broker.responds.set()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            assert link.broker is cast("Broker", broker)
            break
        except BrokerUnavailableError:
            broker.asked.acquire(timeout=0.1)
    else:
        pytest.fail("the broker responds and is not used")
    link.close()
    assert broker.is_closed.wait(60)


def test_a_broker_is_closed_after_a_check_that_is_still_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_link, "_PATIENCE_SECONDS", 0.01)
    broker = SlowBroker()
    link = BrokerLink(lambda: cast("Broker", broker), "kafka://host:9092", is_remote=True)
    with pytest.raises(BrokerUnavailableError):
        _ = link.broker
    link.close()
    assert not broker.is_closed.is_set()
    broker.responds.set()
    assert broker.is_closed.wait(60)
