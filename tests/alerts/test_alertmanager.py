"""The same script of alerts and silences for Millstream and for a real Alertmanager: the same notifications.

time    0    1    2    3    4    5    6    7    8    9   in units; an event is half a unit away from the looks
looks        x         x         x         x         x   group_wait is 1, group_interval 2, repeat_interval 5
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.servers.alertmanager import Alertmanager
from tests.servers.debian import NoServerError
from tests.servers.receiver import Receiver, receiver

from millstream import App
from millstream.alerts.silences import Silence
from millstream.testing import TestDriver
from millstream.testing.connectors import MemorySink

pytestmark = pytest.mark.server
UNIT_MS = 1000
END = 9.5


class Change(NamedTuple):
    at: float
    """In units."""
    group: str
    alert: str
    fires: bool


SCRIPT = sorted(
    [
        Change(0.0, "resolved", "a", True),  # fires, and is resolved later
        Change(3.5, "resolved", "a", False),
        Change(0.0, "short", "a", True),  # resolved before group_wait is over: no notification
        Change(0.5, "short", "a", False),
        Change(0.0, "second", "a", True),  # a second alert of the group is notified with the first one
        Change(2.0, "second", "b", True),
        Change(0.0, "partly", "a", True),  # one of two is resolved
        Change(0.0, "partly", "b", True),
        Change(2.0, "partly", "a", False),
        Change(0.0, "between", "a", True),  # b begins and ends between two looks
        Change(1.5, "between", "b", True),
        Change(2.5, "between", "b", False),
        Change(0.0, "unchanged", "a", True),  # repeated after repeat_interval
        Change(0.0, "silenced", "a", True),  # notified when the silence is over
        Change(0.0, "hidden", "a", True),  # a is silenced, b is not
        Change(0.0, "hidden", "b", True),
        Change(0.0, "again", "a", True),  # resolved and firing again before the next look
        Change(1.5, "again", "a", False),
        Change(2.5, "again", "a", True),
    ],
    key=lambda change: change.at,
)
SILENCES = ((("group=silenced",), 4.0), (("group=~hid.*", "key!=hidden-b"), 100.0))
"""The matchers of each silence, and when it ends."""

Notified = dict[str, list[tuple[int, str, list[tuple[str, str, str]]]]]
"""By group: unit, status, and the status, key and fingerprint of each alert."""


def alert_labels(change: Change) -> dict[str, str]:
    return {"alertname": "load", "app": "am", "key": f"{change.group}-{change.alert}", "group": change.group}


@pytest.fixture
def webhook() -> Iterator[Receiver]:
    with receiver() as target:
        yield target


@pytest.fixture
def alertmanager(tmp_path: Path, webhook: Receiver) -> Iterator[Alertmanager]:
    config = f"""
route:
  receiver: people
  group_by: [group]
  group_wait: {UNIT_MS}ms
  group_interval: {2 * UNIT_MS}ms
  repeat_interval: {5 * UNIT_MS}ms
receivers:
- name: people
  webhook_configs: [{{url: "{webhook.url}"}}]
"""
    try:
        server = Alertmanager(tmp_path / "alertmanager", config)
        server.start()
    except NoServerError as reason:
        pytest.skip(f"Alertmanager cannot run here: {reason}")
    yield server
    server.kill()


def test_notifications_are_those_of_alertmanager(alertmanager: Alertmanager, webhook: Receiver) -> None:
    assert of_millstream() == of_alertmanager(alertmanager, webhook)


def test_millstream_notifies_what_the_script_says() -> None:
    looks = {group: [look for look, _, _ in sent] for group, sent in of_millstream().items()}
    assert looks == {
        "resolved": [1, 5],
        "second": [1, 3, 9],
        "partly": [1, 3, 9],
        "between": [1, 3, 9],
        "unchanged": [1, 7],
        "silenced": [5],
        "hidden": [1, 7],
        "again": [1, 7],
    }


def of_millstream() -> Notified:
    app, sink = App("am"), MemorySink()
    load = app.stream("load").alert(
        "load", when=lambda row: row["fires"], clock="wall", labels=lambda row: {"group": row["group"]}
    )
    load.notify(
        sink,
        name="people",
        group_by=["group"],
        group_wait=f"{UNIT_MS} ms",
        group_interval=f"{2 * UNIT_MS} ms",
        repeat_interval=f"{5 * UNIT_MS} ms",
    )
    sent: Notified = defaultdict(list)
    with TestDriver(app) as driver:
        for matchers, end in SILENCES:
            silence = Silence(id=str(end), matchers=matchers, starts=0, ends=round(end * UNIT_MS))
            driver.topic("am.silences").pipe(silence, key=silence.id)
        changes = list(SCRIPT)
        while driver.wall_clock <= END * UNIT_MS:
            while changes and changes[0].at * UNIT_MS <= driver.wall_clock:
                change = changes.pop(0)
                row = {"fires": change.fires, "group": change.group}
                driver.topic("load").pipe(row, key=f"{change.group}-{change.alert}", timestamp=driver.wall_clock)
            for record in driver.sink("people").read():
                add(sent, driver.wall_clock, msgspec.to_builtins(record.value))
            driver.advance_wall_clock("500 ms")
    return dict(sent)


def of_alertmanager(alertmanager: Alertmanager, webhook: Receiver) -> Notified:
    start, waiting = time.time(), threading.Event()
    for matchers, end in SILENCES:
        silence = {
            "matchers": [api_matcher(matcher) for matcher in matchers],
            "startsAt": api_time(start),
            "endsAt": api_time(start + end * UNIT_MS / 1000),
            "createdBy": "test",
            "comment": "test",
        }
        alertmanager.post("silences", msgspec.json.encode(silence))
    started: dict[tuple[str, str], float] = {}
    start = time.time()
    for at in sorted({change.at for change in SCRIPT}):
        waiting.wait(max(0.0, start + at * UNIT_MS / 1000 - time.time()))
        alerts = [api_alert(change, started) for change in SCRIPT if change.at == at]
        alertmanager.post("alerts", msgspec.json.encode(alerts))
        check_punctual(time.time() - start - at * UNIT_MS / 1000)
    sent: Notified = defaultdict(list)
    waiting.wait(start + END * UNIT_MS / 1000 - time.time())
    for received in webhook.received:
        units = (received.at - start) * 1000 / UNIT_MS
        check_punctual((units - 1) % 2 * UNIT_MS / 1000)  # looks are at 1, 3, 5 …
        add(sent, (received.at - start) * 1000, msgspec.json.decode(received.body))
    return dict(sent)


def check_punctual(late_seconds: float) -> None:
    """Skip the test if the machine is so busy that an event or a look comes too late to mean what the script says."""
    if late_seconds > 0.4 * UNIT_MS / 1000:
        pytest.skip(f"the machine is too busy to compare times: {late_seconds:.1f} s late")


def add(sent: Notified, milliseconds: float, notification: dict[str, Any]) -> None:
    """Add a notification; where both must agree apart from the time, and where only a part is compared."""
    labels = [alert["labels"] for alert in notification["alerts"]]
    group = notification["groupLabels"]["group"]
    assert notification["groupKey"] == f'{{}}:{{group="{group}"}}'
    assert notification["receiver"] == "people"
    assert notification["version"] == "4"
    assert notification["commonLabels"] == dict(set.intersection(*(set(each.items()) for each in labels)))
    alerts = [(alert["status"], alert["labels"]["key"], alert["fingerprint"]) for alert in notification["alerts"]]
    sent[group].append((round((milliseconds - 300) / UNIT_MS), notification["status"], alerts))


def api_alert(change: Change, started: dict[tuple[str, str], float]) -> dict[str, Any]:
    now = time.time()
    if change.fires:
        started[change.group, change.alert] = now
    alert = {"labels": alert_labels(change), "startsAt": api_time(started[change.group, change.alert])}
    return {**alert, "endsAt": api_time(now + 3600 if change.fires else now)}


def api_matcher(matcher: str) -> dict[str, Any]:
    operator = next(operator for operator in ("=~", "!=", "=") if operator in matcher)
    name, _, value = matcher.partition(operator)
    return {"name": name, "value": value, "isRegex": "~" in operator, "isEqual": not operator.startswith("!")}


def api_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
