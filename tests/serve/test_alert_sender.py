"""An alert that is raised while its target is down arrives later: once, in order, also after a restart."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from millstream.foundation.storage import close_environments
from millstream.serve.alert_rules import AlertEvent, AlertStore, Rule
from millstream.serve.alert_sender import AlertSender


class Target:
    """A webhook that can be down; it answers 503 then."""

    def __init__(self) -> None:
        self.is_down = True
        self.calls = 0
        self.received: list[str] = []


@contextmanager
def serving(target: Target) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = msgspec.json.decode(self.rfile.read(int(self.headers["Content-Length"])))
            target.calls += 1
            if not target.is_down:
                target.received.append(body["message"])
            self.send_response(503 if target.is_down else 200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AlertStore]:
    yield AlertStore(tmp_path)
    close_environments(tmp_path)


def raise_alert(store: AlertStore, message: str, to: str, at: int = 1_000_000) -> None:
    store.put(Rule(name="behind", app="a", what="lag", to=to))
    store.add_event(AlertEvent(at=at, rule="behind", app="a", is_raised=True, message=message, delivery=""), to)


def test_an_alert_raised_during_an_outage_arrives_after_it_in_order(
    store: AlertStore, clock: Clock, tmp_path: Path
) -> None:
    target = Target()
    with serving(target) as url:
        raise_alert(store, "first", url)
        raise_alert(store, "second", url)
        sender = AlertSender(store, clock)
        sender.send_pending()
        assert target.calls == 1  # the second one waits for the first
        (_, first) = store.events()
        assert "503" in first.delivery
        assert "attempt 1, the next one in 5 s" in first.delivery
        sender.send_pending()
        assert target.calls == 1
        close_environments(tmp_path)  # the server restarts
        restarted = AlertSender(AlertStore(tmp_path), clock)
        target.is_down = False
        restarted.send_pending()
        assert target.received == []  # not before its pause is over
        clock.now += 5
        restarted.send_pending()
        restarted.send_pending()
    assert target.received == ["first", "second"]
    assert [event.delivery for event in store.events()] == ["127.0.0.1 responded with 200"] * 2


def test_pauses_grow_up_to_a_limit_and_attempts_end_after_a_day(store: AlertStore, clock: Clock) -> None:
    target = Target()
    with serving(target) as url:
        raise_alert(store, "lost in the end", url)
        sender = AlertSender(store, clock)
        pauses = []
        while store.pending():
            sender.send_pending()
            for alert, _ in store.pending():
                pauses.append(alert.next_at / 1000 - clock.now)
                clock.now = alert.next_at / 1000
    assert pauses[:8] == [5, 10, 20, 40, 80, 160, 320, 600]
    assert max(pauses) == 600
    assert clock.now - 1_000 > 86_400
    (event,) = store.events()
    assert event.delivery.startswith(f"given up after {target.calls} attempts: could not be sent")


def test_a_target_that_is_down_does_not_delay_another_one(store: AlertStore, clock: Clock) -> None:
    down, up = Target(), Target()
    up.is_down = False
    with serving(down) as down_url, serving(up) as up_url:
        raise_alert(store, "first", down_url)
        raise_alert(store, "second", up_url)
        AlertSender(store, clock).send_pending()
    assert up.received == ["second"]


def test_events_of_a_deleted_rule_are_not_sent(store: AlertStore, clock: Clock) -> None:
    target = Target()
    with serving(target) as url:
        raise_alert(store, "first", url)
        store.delete("behind")
        AlertSender(store, clock).send_pending()
    assert target.calls == 0
    assert store.pending() == []
    assert store.events()[0].delivery == "not sent: the alert was deleted before"


def test_unsent_events_stay_in_the_bounded_history(store: AlertStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.serve.alert_rules._MAX_EVENTS", 3)
    raise_alert(store, "unsent", "http://127.0.0.1:1")
    for number in range(5):
        event = AlertEvent(at=number, rule="other", app="a", is_raised=True, message=str(number), delivery="")
        store.add_event(event)
    assert [event.message for event in store.events()] == ["4", "3", "2", "unsent"]
