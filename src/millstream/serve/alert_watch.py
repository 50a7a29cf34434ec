"""Checks alert rules: one server of a data directory evaluates all of them every few seconds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import msgspec

from millstream.errors import MillstreamError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.text import printable
from millstream.serve.alert_conditions import is_met, rule_value
from millstream.serve.alert_rules import AlertEvent, AlertStore, Rule
from millstream.serve.alert_sender import AlertSender
from millstream.serve.data_directory import DataDirectory

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
        self._locking = threading.Lock()
        self._stopping = threading.Event()
        self._sender = AlertSender(self.store)
        self._threads = [
            threading.Thread(target=self._repeat, args=(step,), name="millstream-alerts", daemon=True)
            for step in (self.check_rules, self.send_pending)
        ]

    def start(self) -> None:
        """Start the threads: one checks rules, the other sends, so that a slow target does not delay the checks."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the threads and release the lock, so that another server can take over."""
        self._stopping.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=10)
        self._lock.release()

    def statuses(self) -> list[AlertStatus]:
        """Return the status of all rules; an alert is raised if its last event in the history says so."""
        raised = self._raised()
        return [self._status(rule, rule.name in raised) for rule in self.store.rules()]

    def check_rules(self) -> list[AlertEvent]:
        """Check all rules once, store the events to be sent, and return them."""
        if not self.store.exists or not self._try_lock():
            return []
        raised, events = self._raised(), []
        for rule in self.store.rules():
            value, message = rule_value(self._directory, rule)
            is_raised = is_met(rule, value)
            if is_raised == (rule.name in raised):
                continue
            at = time.time_ns() // 1_000_000
            delivery = "shown in the dashboard only" if rule.to is None else "waiting to be sent"
            event = AlertEvent(
                at=at, rule=rule.name, app=rule.app, is_raised=is_raised, message=message, delivery=delivery
            )
            self.store.add_event(event, rule.to)
            events.append(event)
            _log.warning("alert %s %s: %s", rule.name, "raised" if is_raised else "resolved", printable(message))
        return events

    def send_pending(self) -> None:
        """Send the events whose turn it is."""
        if self.store.exists and self._try_lock():
            self._sender.send_pending()

    def _status(self, rule: Rule, is_raised: bool) -> AlertStatus:
        value, message = rule_value(self._directory, rule)
        return AlertStatus(rule=rule, is_raised=is_raised, number=value, message=message)

    def _raised(self) -> set[str]:
        latest: dict[str, bool] = {}
        for event in self.store.events(1000):
            latest.setdefault(event.rule, event.is_raised)
        return {name for name, is_raised in latest.items() if is_raised}

    def _try_lock(self) -> bool:
        with self._locking:
            if not self._has_lock:
                self._has_lock = self._lock.acquire()
            return self._has_lock

    def _repeat(self, step: Callable[[], object]) -> None:
        while not self._stopping.wait(self._interval):
            try:
                step()
            except MillstreamError as error:
                _log.warning("cannot check alerts: %s", printable(str(error)))
            except Exception as error:  # one failed check must not end the thread
                _log.error("cannot check alerts: %s", printable(repr(error)))
