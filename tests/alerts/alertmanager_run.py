"""One run of the script on a real Alertmanager, whose looks are the clock.

What the script says to happen between two looks happens when the log shows the first of them for every group. A busy
machine makes looks late, and may delay an event beyond the next look or a look beyond ``repeat_interval``: then the
run was not one of the script, and is repeated with longer units. Which notifications follow from the looks plays no
part in that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from tests.alerts.alert_script import (
    CHANGES,
    GROUP_INTERVAL,
    GROUP_WAIT,
    LOOKS,
    REPEAT_INTERVAL,
    SILENCES,
    Change,
    Notified,
    add,
    alerts_at_looks,
    group_key,
    look_after,
)
from tests.servers.alertmanager import Alertmanager, Look
from tests.servers.receiver import Receiver

GROUPS = tuple(dict.fromkeys(change.group for change in CHANGES))
_POLL_SECONDS = 0.01
_LIMIT_SECONDS = 120.0


class NotTheScriptError(Exception):
    """The machine was so busy that Alertmanager has seen something else than the script says."""


def config(url: str, unit: float) -> str:
    """Return the configuration with units of that many seconds."""
    milliseconds = round(unit * 1000)
    return f"""
route:
  receiver: people
  group_by: [group]
  group_wait: {GROUP_WAIT * milliseconds}ms
  group_interval: {GROUP_INTERVAL * milliseconds}ms
  repeat_interval: {REPEAT_INTERVAL * milliseconds}ms
receivers:
- name: people
  webhook_configs: [{{url: "{url}"}}]
"""


class AlertmanagerRun:
    """Runs the script on an Alertmanager that has just started."""

    def __init__(self, server: Alertmanager, webhook: Receiver, unit: float) -> None:
        self._server = server
        self._webhook = webhook
        self._unit = unit
        self._started: dict[str, float] = {}
        self._silences: dict[float, str] = {}
        self._sent_between: list[tuple[float, float]] = []
        """When the events before each look were sent: the first and the last moment."""

    def notifications(self) -> Notified:
        """Run the script and return the notifications; raise if Alertmanager has not seen the script."""
        for silencing in SILENCES:
            self._silence(silencing.matchers, silencing.ends)
        for look in range(1, LOOKS + 1):
            self._send(look)
            self._await_look(look)
        # A group handles one look after the other: at the next one, the notifications of this one are sent.
        self._await_look(LOOKS + 1)
        looks = self._looks_by_group()
        self._check(looks)
        sent: Notified = {}
        for received in list(self._webhook.received):
            notification = msgspec.json.decode(received.body)
            group = notification["groupLabels"]["group"]
            number = sum(look.at <= received.at for look in looks[group])
            if number <= LOOKS:
                add(sent, number, notification)
        return sent

    def _send(self, look: int) -> None:
        """Send what happens before a look."""
        begin = time.time()
        changes = [change for change in CHANGES if look_after(change.at) == look]
        for at in sorted({change.at for change in changes}):
            alerts = [self._alert(change) for change in changes if change.at == at]
            self._server.post("alerts", msgspec.json.encode(alerts))
        for at, silence in self._silences.items():
            if look_after(at) == look:
                self._server.delete(f"silence/{silence}")
        self._sent_between.append((begin, time.time()))

    def _await_look(self, number: int) -> None:
        """Wait until that many looks at each group are logged, as far as it still has alerts."""
        deadline, waiting = time.monotonic() + _LIMIT_SECONDS, threading.Event()
        while True:
            looks = self._looks_by_group()
            if all(len(looks[group]) >= min(number, _last_look(group)) for group in GROUPS):
                return
            assert time.monotonic() < deadline, f"Alertmanager did not look a {number}. time: {looks}"
            waiting.wait(_POLL_SECONDS)

    def _looks_by_group(self) -> dict[str, list[Look]]:
        looks = self._server.looks()
        return {group: [look for look in looks if look.group_key == group_key(group)] for group in GROUPS}

    def _check(self, looks: Mapping[str, Sequence[Look]]) -> None:
        """Raise unless each look was at what the script says, and repeat_interval ended between the same looks."""
        for group, at_group in looks.items():
            expected = alerts_at_looks(group)
            if [look.alerts for look in at_group[: len(expected)]] != expected:
                raise NotTheScriptError(f"looks at {group!r}: {at_group}, not at {expected}")
            for (_, sent), look in zip(self._sent_between, at_group, strict=False):
                if sent >= look.at:
                    raise NotTheScriptError(f"events were sent until {sent}, and {group!r} was looked at {look.at}")
            for number, look in enumerate(at_group[:LOOKS]):
                late = look.at - at_group[0].at - number * GROUP_INTERVAL * self._unit
                if late > self._unit / 2:
                    raise NotTheScriptError(f"a look at {group!r} was {late:.2f} s late")
        self._check_sent(looks)

    def _check_sent(self, looks: Mapping[str, Sequence[Look]]) -> None:
        """Raise unless each notification was sent at once: repeat_interval begins when it is sent."""
        all_looks = [look.at for at_group in looks.values() for look in at_group]
        if failed := self._server.failed_sends():
            raise NotTheScriptError(failed[0])
        end = min(at_group[LOOKS].at for at_group in looks.values() if len(at_group) > LOOKS)
        notified = [at for at in self._server.sent_at() if at < end]
        received = [request for request in self._webhook.received if request.at < end]
        if len(notified) != len(received):
            raise NotTheScriptError(f"{len(received)} requests for {len(notified)} notifications")
        for at in notified:
            late = at - max(look for look in all_looks if look <= at)
            if late > self._unit / 2:
                raise NotTheScriptError(f"a notification was sent {late:.2f} s after the look")

    def _silence(self, matchers: Sequence[str], ends: float | None) -> None:
        silence = {
            "matchers": [_matcher(matcher) for matcher in matchers],
            "startsAt": _text(time.time()),
            "endsAt": _text(time.time() + 3600),
            "createdBy": "test",
            "comment": "test",
        }
        answer = msgspec.json.decode(self._server.post("silences", msgspec.json.encode(silence)))
        if ends is not None:
            self._silences[ends] = answer["silenceID"]

    def _alert(self, change: Change) -> dict[str, Any]:
        now = time.time()
        if change.fires:
            self._started[change.key] = now
        alert = {"labels": change.labels, "startsAt": _text(self._started[change.key])}
        return {**alert, "endsAt": _text(now + 3600 if change.fires else now)}


def _last_look(group: str) -> int:
    """Return how many looks at a group are logged; one with alerts to the end is looked at forever."""
    looks = alerts_at_looks(group)
    return LOOKS + 1 if len(looks) == LOOKS and "active" in looks[-1].values() else len(looks)


def _matcher(matcher: str) -> dict[str, Any]:
    operator = next(operator for operator in ("=~", "!=", "=") if operator in matcher)
    name, _, value = matcher.partition(operator)
    return {"name": name, "value": value, "isRegex": "~" in operator, "isEqual": not operator.startswith("!")}


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
