"""Send stored alerts to their targets: in order for each target, again with growing pauses while it is down."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import msgspec

from millstream.foundation.text import printable
from millstream.serve.alert_rules import AlertEvent, AlertStore, PendingAlert
from millstream.serve.notify import notify

_log = logging.getLogger(__name__)
_FIRST_PAUSE_SECONDS = 5
_MAX_PAUSE_SECONDS = 600
_GIVE_UP_AFTER_MS = 24 * 3_600_000


class AlertSender:
    """Sends the pending events of a store, at least once each; they survive a restart of the server."""

    def __init__(self, store: AlertStore, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def send_pending(self) -> None:
        """Make one attempt for each target that is due; a target that fails gets no later event before the earlier."""
        pending = self._store.pending()
        rules = {rule.name for rule in self._store.rules()} if pending else set()
        waiting: set[str] = set()
        for alert, event in pending:
            if event.rule not in rules:
                self._settle(alert, event, "not sent: the alert was deleted before")
            elif alert.to in waiting or alert.next_at > self._clock() * 1000 or not self._attempt(alert, event):
                waiting.add(alert.to)

    def _attempt(self, alert: PendingAlert, event: AlertEvent) -> bool:
        """Send an event, and return whether the next one for the same target may be sent."""
        outcome = notify(alert.to, event)
        attempts = alert.attempts + 1
        now = round(self._clock() * 1000)
        if outcome.is_sent:
            self._settle(alert, event, outcome.text)
            return True
        if now - event.at > _GIVE_UP_AFTER_MS:
            self._settle(alert, event, f"given up after {attempts} attempts: {outcome.text}")
            return True
        pause = min(_MAX_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**alert.attempts)
        text = f"{outcome.text}; attempt {attempts}, the next one in {pause} s"
        _log.warning("alert %s: %s", event.rule, printable(text))
        later = msgspec.structs.replace(alert, attempts=attempts, next_at=now + pause * 1000)
        self._store.set_delivery(later, msgspec.structs.replace(event, delivery=text), is_settled=False)
        return False

    def _settle(self, alert: PendingAlert, event: AlertEvent, text: str) -> None:
        _log.warning("alert %s: %s", event.rule, printable(text))
        self._store.set_delivery(alert, msgspec.structs.replace(event, delivery=text), is_settled=True)
