"""The same script of alerts and silences for Millstream and for a real Alertmanager: the same notifications."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.alerts.alert_script import (
    CHANGES,
    GROUP_INTERVAL,
    GROUP_WAIT,
    LOOKS,
    REPEAT_INTERVAL,
    SILENCES,
    Notified,
    add,
    look_after,
)
from tests.alerts.alertmanager_run import AlertmanagerRun, NotTheScriptError, config
from tests.servers.alertmanager import Alertmanager
from tests.servers.debian import NoServerError
from tests.servers.receiver import receiver

from millstream import App
from millstream.alerts.silences import Silence
from millstream.testing import TestDriver
from millstream.testing.connectors import MemorySink

UNIT_MS = 1000
_UNITS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds; each is tried if the machine was too busy for the one before."""


@pytest.mark.server
@pytest.mark.timeout(600)
def test_notifications_are_those_of_alertmanager(tmp_path: Path) -> None:
    assert of_alertmanager(tmp_path) == of_millstream()


def test_millstream_notifies_what_the_script_says() -> None:
    looks = {group: [look for look, _, _ in sent] for group, sent in of_millstream().items()}
    assert looks == {
        "resolved": [1, 3],
        "second": [1, 2, 5],
        "partly": [1, 2, 5],
        "between": [1, 2, 5],
        "unchanged": [1, 4],
        "silenced": [3],
        "hidden": [1, 4],
        "again": [1, 4],
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
        group_wait=f"{GROUP_WAIT * UNIT_MS} ms",
        group_interval=f"{GROUP_INTERVAL * UNIT_MS} ms",
        repeat_interval=f"{REPEAT_INTERVAL * UNIT_MS} ms",
    )
    sent: Notified = {}
    with TestDriver(app) as driver:
        for half in range(2 * (GROUP_WAIT + (LOOKS - 1) * GROUP_INTERVAL) + 1):
            pipe_events(driver, half / 2)
            for record in driver.sink("people").read():
                add(sent, look_after(half / 2), msgspec.to_builtins(record.value))
            driver.advance_wall_clock(f"{UNIT_MS // 2} ms")
    return sent


def pipe_events(driver: TestDriver, at: float) -> None:
    """Pipe what the script says for a time, in units."""
    for change in CHANGES:
        if change.at == at:
            row = {"fires": change.fires, "group": change.group}
            driver.topic("load").pipe(row, key=change.key, timestamp=driver.wall_clock)
    for number, silencing in enumerate(SILENCES):
        if at in (0.0, silencing.ends):
            ends = 3_600_000 if at == 0.0 else driver.wall_clock
            silence = Silence(id=str(number), matchers=silencing.matchers, starts=0, ends=ends)
            driver.topic("am.silences").pipe(silence, key=silence.id)


def of_alertmanager(directory: Path) -> Notified:
    """Run the script with the shortest units that the machine is quick enough for."""
    busy: list[str] = []
    for unit in _UNITS:
        with receiver() as webhook:
            try:
                server = Alertmanager(directory / str(unit), config(webhook.url, unit))
            except NoServerError as reason:
                pytest.skip(f"Alertmanager cannot be installed here: {reason}")
            server.start()
            try:
                return AlertmanagerRun(server, webhook, unit).notifications()
            except NotTheScriptError as reason:
                busy.append(f"{unit} s: {reason}")
            finally:
                server.stop()
    raise AssertionError("\n".join(busy))
