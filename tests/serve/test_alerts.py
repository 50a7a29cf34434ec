from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.running import run_to_end
from tests.serve.conftest import Served, fill, rides_app, serving

from millstream.batch.connector_status import ConnectorStatus, write_status
from millstream.batch.history import FailureReport
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import lock_file
from millstream.serve.alert_watch import AlertWatch
from millstream.serve.notify import SMTP_VARIABLE

LAG = {"name": "behind", "app": "rides-app", "what": "lag", "limit": 2}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    fill(tmp_path)
    run_to_end(rides_app(tmp_path))
    served = serving(tmp_path)
    yield served
    served.site.watch.stop()
    served.site.directory.close()


@contextmanager
def webhook() -> Iterator[tuple[str, list[Any]]]:
    """A real server that records what is posted to it; /moved is a redirect."""
    received: list[Any] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(302 if self.path == "/moved" else 200)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    server.server_close()
    thread.join()


def write(served: Served, count: int) -> None:
    for number in range(count):
        served.post("/api/topics/rides/records", {"value": number})


def test_an_alert_is_raised_sent_and_resolved_once(served: Served) -> None:
    with webhook() as (url, received):
        assert served.post("/api/alerts", {**LAG, "to": url}).status_code == 200
        assert served.site.watch.check_rules() == []
        write(served, 3)
        (event,) = served.site.watch.check_rules()
        assert (event.is_raised, event.message) == (True, "rides-app has a lag of 3 records")
        assert served.site.watch.check_rules() == []
        served.site.watch.send_pending()
        assert [(event["rule"], event["is_raised"]) for event in received] == [("behind", True)]
        run_to_end(rides_app(served.data_dir))
        (over,) = served.site.watch.check_rules()
        assert (over.is_raised, over.delivery) == (False, "waiting to be sent")
        served.site.watch.send_pending()
        served.site.watch.send_pending()
        assert len(received) == 2
    listed = served.get("/api/alerts")
    assert [event["delivery"] for event in listed["events"]] == ["127.0.0.1 responded with 200"] * 2
    assert [event["is_raised"] for event in listed["events"]] == [False, True]
    assert not listed["rules"][0]["is_raised"]


def test_late_records_dead_letters_and_numbers_in_tables_raise_alerts(served: Served) -> None:
    for rule in (
        {"name": "late", "app": "rides-app", "what": "late"},
        {"name": "letters", "app": "rides-app", "what": "dead_letters", "limit": 3},
        {"name": "table", "app": "rides-app", "what": "table", "table": "per_vendor", "key": "v1", "limit": 10},
        {"name": "few", "app": "rides-app", "what": "table", "table": "per_vendor", "key": "v1", "above": False},
        {"name": "failed", "app": "rides-app", "what": "failure"},
    ):
        assert served.post("/api/alerts", rule).status_code == 200
    assert {event.rule for event in served.site.watch.check_rules()} == {"late", "letters", "table"}


def test_a_sink_that_fails_again_and_again_raises_an_alert_while_the_app_runs(served: Served) -> None:
    served.post("/api/alerts", {"name": "failed", "app": "rides-app", "what": "failure"})
    failure = FailureReport(
        at=1, batch=1, kind="user code", attempts=2, code="delivery_function", message="KeyError", hint=None, stack="",
        goes_on=True,
    )  # fmt: skip
    sink = ConnectorStatus(
        name="lake", direction="sink", system="Spark", guarantee="", at=1, state="running", batch=0, failure=failure
    )
    lock = FileLock(lock_file(served.data_dir, "rides-app"))
    assert lock.acquire()
    try:
        write_status(served.data_dir, "rides-app", sink)
        assert served.site.watch.check_rules() == []
        third = msgspec.structs.replace(failure, attempts=3)
        write_status(served.data_dir, "rides-app", msgspec.structs.replace(sink, failure=third))
        (event,) = served.site.watch.check_rules()
        assert (event.is_raised, event.message) == (True, "lake of rides-app fails: KeyError")
    finally:
        lock.release()


def test_one_server_of_a_directory_checks_rules_and_another_takes_over(served: Served) -> None:
    served.post("/api/alerts", LAG)
    write(served, 3)
    other = AlertWatch(served.site.directory)
    assert len(served.site.watch.check_rules()) == 1
    assert other.check_rules() == []
    run_to_end(rides_app(served.data_dir))
    served.site.watch.stop()
    assert [event.is_raised for event in other.check_rules()] == [False]
    other.stop()


def test_a_failed_or_redirected_webhook_is_recorded_and_not_followed(served: Served) -> None:
    with webhook() as (url, received):
        served.post("/api/alerts", {**LAG, "to": f"{url}/moved"})
        moved = served.post("/api/alerts/behind/try", {}).json()["done"]
        assert "302" in moved
        assert len(received) == 1
    assert "could not be sent" in served.post("/api/alerts/behind/try", {}).json()["done"]


def test_an_alert_is_mailed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        mails: list[str] = []
        thread = threading.Thread(target=_receive_mail, args=(listener, mails))
        thread.start()
        monkeypatch.setenv(SMTP_VARIABLE, f"smtp://127.0.0.1:{listener.getsockname()[1]}")
        served.post("/api/alerts", {**LAG, "to": "mailto:ops@example.test"})
        done = served.post("/api/alerts/behind/try", {"message": "trial\r\nBcc: evil@example.test"}).json()["done"]
        thread.join(timeout=30)
    assert done == "mailed to ops@example.test"
    head, _, body = mails[0].partition("\r\n\r\n")
    assert "Subject: alert: behind (rides-app)" in head
    assert "Bcc" not in head
    assert "trial" in body


def _receive_mail(listener: socket.socket, mails: list[str]) -> None:
    """Speak enough SMTP for one mail."""
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb") as talk:

        def say(line: str) -> None:
            talk.write(f"{line}\r\n".encode())
            talk.flush()

        say("220 here")
        for raw in iter(talk.readline, b""):
            word = raw[:4].upper()
            if word == b"DATA":
                say("354 go on")
                lines = list(iter(talk.readline, b".\r\n"))
                mails.append(b"".join(lines).decode())
            say("221 bye" if word == b"QUIT" else "250 well")
            if word == b"QUIT":
                return


@pytest.mark.parametrize(
    "change",
    [
        {"to": "file:///etc/passwd"},
        {"to": "ftp://x"},
        {"app": "unknown"},
        {"name": "../x"},
        {"what": "table"},
        {"x": 1},
    ],
)
def test_an_invalid_rule_is_rejected(served: Served, change: dict[str, Any]) -> None:
    assert served.post("/api/alerts", {**LAG, **change}).status_code in (400, 404)
    assert served.get("/api/alerts")["rules"] == []


def test_the_history_is_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.serve.alert_rules._MAX_EVENTS", 3)
    served.post("/api/alerts", LAG)
    write(served, 3)
    for _ in range(3):
        served.site.watch.check_rules()
        served.post("/api/alerts", {**LAG, "limit": 1000})
        served.site.watch.check_rules()
        served.post("/api/alerts", LAG)
    assert len(served.get("/api/alerts")["events"]) == 3
