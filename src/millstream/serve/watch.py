"""The watch over alert rules: one server of a data directory looks at all rules every few seconds."""

from __future__ import annotations

import logging
import threading
import time

import msgspec

from millstream.errors import MillstreamError
from millstream.foundation.storage import FileLock
from millstream.foundation.text import printable
from millstream.serve.alert_rules import AlertBook, AlertEvent, Rule
from millstream.serve.measures import is_met, measured
from millstream.serve.notify import tell
from millstream.serve.place import Place

_log = logging.getLogger(__name__)
_EVERY_SECONDS = 2.0


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A rule and how it stands now."""

    rule: Rule
    is_raised: bool
    number: float | None
    message: str


class Watch:
    """Looks at the rules of a place, in a thread of its own, unless another server does so already."""

    def __init__(self, place: Place, every: float = _EVERY_SECONDS) -> None:
        self.book = AlertBook(place.data_dir)
        self._place = place
        self._every = every
        self._lock = FileLock(self.book.directory / "lock")
        self._is_ours = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="millstream-alerts", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End, and let another server take over."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        self._lock.release()

    def standings(self) -> list[Standing]:
        """Return how all rules stand now; what is raised is what the history says last of each."""
        raised = self._raised()
        return [self._standing(rule, rule.name in raised) for rule in self.book.rules()]

    def look(self) -> list[AlertEvent]:
        """Look at all rules once; return what has changed, after telling it."""
        if not self.book.is_there or not self._take():
            return []
        raised, events = self._raised(), []
        for rule in self.book.rules():
            number, message = measured(self._place, rule)
            now = is_met(rule, number)
            if now == (rule.name in raised):
                continue
            event = AlertEvent(
                at=time.time_ns() // 1_000_000, rule=rule.name, app=rule.app, is_raised=now, message=message, told=""
            )
            event = msgspec.structs.replace(event, told=tell(rule.to, event))
            self.book.note(event)
            events.append(event)
            word = "raised" if now else "over"
            _log.warning("alert %s %s: %s (%s)", rule.name, word, printable(message), event.told)
        return events

    def _standing(self, rule: Rule, is_raised: bool) -> Standing:
        number, message = measured(self._place, rule)
        return Standing(rule=rule, is_raised=is_raised, number=number, message=message)

    def _raised(self) -> set[str]:
        latest: dict[str, bool] = {}
        for event in self.book.events(1000):
            latest.setdefault(event.rule, event.is_raised)
        return {name for name, is_raised in latest.items() if is_raised}

    def _take(self) -> bool:
        if not self._is_ours:
            self._is_ours = self._lock.acquire()
        return self._is_ours

    def _work(self) -> None:
        while not self._stopping.wait(self._every):
            try:
                self.look()
            except MillstreamError as error:
                _log.warning("alerts could not be looked at: %s", printable(str(error)))
            except Exception as error:  # the watch goes on, whatever one look has met
                _log.error("alerts could not be looked at: %s", printable(repr(error)))
