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
from millstream.operations.alert_topics import add_silence
from millstream.operations.alert_watch import AlertWatch
from millstream.operations.targets import SMTP_VARIABLE

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
def webhook(port: int = 0) -> Iterator[tuple[str, list[Any]]]:
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

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def write(served: Served, count: int) -> None:
    for number in range(count):
        served.post("/api/topics/rides/records", {"value": number})


def firing(served: Served) -> set[str]:
    """Return the rules whose alerts are firing after an evaluation."""
    served.site.watch.check_rules()
    return {status["rule"]["name"] for status in served.get("/api/alerts")["rules"] if status["is_firing"]}


def test_an_alert_is_raised_sent_and_resolved_once(served: Served) -> None:
    with webhook() as (url, received):
        assert served.post("/api/alerts", {**LAG, "to": url}).status_code == 200
        assert firing(served) == set()
        write(served, 3)
        assert firing(served) == {"behind"}
        assert firing(served) == {"behind"}
        listed = served.get("/api/alerts")
        assert [event["summary"] for event in listed["active"]] == ["rides-app has a lag of 3 records"]
        run_to_end(rides_app(served.data_dir))
        assert firing(served) == set()
        arrived(received, 1)
    assert [(message["status"], message["receiver"]) for message in received] == [("firing", "behind")]
    listed = served.get("/api/alerts")
    assert [event["status"] for event in listed["events"]] == ["resolved", "firing"]
    assert listed["active"] == []
    assert "Active alerts" in served.page("/alerts")


def arrived(received: list[Any], count: int) -> None:
    """Wait until a webhook has received that many messages."""
    deadline = threading.Event()
    for _ in range(1000):
        if len(received) >= count:
            return
        deadline.wait(0.02)
    pytest.fail(f"only {len(received)} messages arrived")


def test_late_records_dead_letters_and_numbers_in_tables_raise_alerts(served: Served) -> None:
    for rule in (
        {"name": "late", "app": "rides-app", "what": "late"},
        {"name": "letters", "app": "rides-app", "what": "dead_letters", "limit": 3},
        {"name": "table", "app": "rides-app", "what": "table", "table": "per_vendor", "key": "v1", "limit": 10},
        {"name": "few", "app": "rides-app", "what": "table", "table": "per_vendor", "key": "v1", "above": False},
        {"name": "failed", "app": "rides-app", "what": "failure"},
    ):
        assert served.post("/api/alerts", rule).status_code == 200
    assert firing(served) == {"late", "letters", "table"}


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
        assert firing(served) == set()
        third = msgspec.structs.replace(failure, attempts=3)
        write_status(served.data_dir, "rides-app", msgspec.structs.replace(sink, failure=third))
        assert firing(served) == {"failed"}
        assert served.get("/api/alerts")["active"][0]["summary"] == "lake of rides-app fails: KeyError"
    finally:
        lock.release()


def test_one_process_evaluates_the_rules_and_another_takes_over(served: Served) -> None:
    served.post("/api/alerts", LAG)
    write(served, 3)
    other = AlertWatch(served.site.directory)
    assert served.site.watch.check_rules() == 1
    assert other.check_rules() == 0
    run_to_end(rides_app(served.data_dir))
    served.site.watch.stop()
    assert other.check_rules() == 1
    assert [status.is_firing for status in other.statuses()] == [False]
    other.stop()


def test_a_target_that_is_down_gets_the_alert_later_also_after_a_restart(served: Served) -> None:
    with webhook() as (url, received):
        port = int(url.rpartition(":")[2])
    served.post("/api/alerts", {**LAG, "to": url})
    write(served, 3)
    assert firing(served) == {"behind"}
    served.site.watch.stop()
    again = AlertWatch(served.site.directory)
    with webhook(port) as (_, received):
        again.check_rules()
        arrived(received, 1)
    again.stop()
    assert [message["status"] for message in received] == ["firing"]


def test_a_silenced_rule_is_not_sent(served: Served) -> None:
    with webhook() as (url, received):
        add_silence(served.site.directory.broker, "rides-app", ["alertname=behind"], 60_000)
        served.post("/api/alerts", {**LAG, "to": url})
        served.post("/api/alerts", {**LAG, "name": "loud", "to": url})
        write(served, 3)
        assert firing(served) == {"behind", "loud"}
        arrived(received, 1)
    assert [message["receiver"] for message in received] == ["loud"]


def test_the_alert_of_a_deleted_rule_is_resolved(served: Served) -> None:
    served.post("/api/alerts", LAG)
    write(served, 3)
    assert firing(served) == {"behind"}
    served.post("/api/alerts/behind/delete", {"confirm": "behind"})
    assert firing(served) == set()
    assert served.get("/api/alerts")["events"][0]["reason"] == "deleted"


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
    assert done == "sent to ops@example.test"
    head, _, body = mails[0].partition("\r\n\r\n")
    assert "Subject: [FIRING:1] behind rides-app" in head
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
        {"to": "http://"},
        {"to": "http://[x"},
        {"to": "https://x:99999"},
        {"to": "mailto:ops"},
        {"to": "mailto:ops@x\r\nBcc: all@x"},
        {"app": "unknown"},
        {"name": "../x"},
        {"what": "table"},
        {"x": 1},
    ],
)
def test_an_invalid_rule_is_rejected(served: Served, change: dict[str, Any]) -> None:
    assert served.post("/api/alerts", {**LAG, **change}).status_code in (400, 404)
    assert served.get("/api/alerts")["rules"] == []
