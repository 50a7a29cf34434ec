"""Checks alert rules: one server of a data directory evaluates all of them every few seconds."""

from __future__ import annotations

import logging
import threading
import time

import msgspec

from millstream.errors import MillstreamError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.text import printable
from millstream.serve.alert_conditions import is_met, rule_value
from millstream.serve.alert_rules import AlertEvent, AlertStore, Rule
from millstream.serve.data_directory import DataDirectory
from millstream.serve.notify import notify

_log = logging.getLogger(__name__)
_INTERVAL_SECONDS = 2.0


class AlertStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A rule, its current value, and whether its alert is raised."""

    rule: Rule
    is_raised: bool
    number: float | None
    message: str


class AlertWatch:
    """Checks the rules of a data directory in its own thread, unless another server already does."""

    def __init__(self, directory: DataDirectory, interval: float = _INTERVAL_SECONDS) -> None:
        self.store = AlertStore(directory.path)
        self._directory = directory
        self._interval = interval
        self._lock = FileLock(self.store.directory / "lock")
        self._has_lock = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="millstream-alerts", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and release the lock, so that another server can take over."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        self._lock.release()

    def statuses(self) -> list[AlertStatus]:
        """Return the status of all rules; an alert is raised if its last event in the history says so."""
        raised = self._raised()
        return [self._status(rule, rule.name in raised) for rule in self.store.rules()]

    def check_rules(self) -> list[AlertEvent]:
        """Check all rules once, send notifications, and return the events."""
        if not self.store.exists or not self._try_lock():
            return []
        raised, events = self._raised(), []
        for rule in self.store.rules():
            value, message = rule_value(self._directory, rule)
            is_raised = is_met(rule, value)
            if is_raised == (rule.name in raised):
                continue
            at = time.time_ns() // 1_000_000
            event = AlertEvent(at=at, rule=rule.name, app=rule.app, is_raised=is_raised, message=message, delivery="")
            event = msgspec.structs.replace(event, delivery=notify(rule.to, event))
            self.store.add_event(event)
            events.append(event)
            state = "raised" if is_raised else "resolved"
            _log.warning("alert %s %s: %s (%s)", rule.name, state, printable(message), event.delivery)
        return events

    def _status(self, rule: Rule, is_raised: bool) -> AlertStatus:
        value, message = rule_value(self._directory, rule)
        return AlertStatus(rule=rule, is_raised=is_raised, number=value, message=message)

    def _raised(self) -> set[str]:
        latest: dict[str, bool] = {}
        for event in self.store.events(1000):
            latest.setdefault(event.rule, event.is_raised)
        return {name for name, is_raised in latest.items() if is_raised}

    def _try_lock(self) -> bool:
        if not self._has_lock:
            self._has_lock = self._lock.acquire()
        return self._has_lock

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            try:
                self.check_rules()
            except MillstreamError as error:
                _log.warning("cannot check alerts: %s", printable(str(error)))
            except Exception as error:  # one failed check must not end the thread
                _log.error("cannot check alerts: %s", printable(repr(error)))
