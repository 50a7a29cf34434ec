"""What a server looks at: one data directory, its broker and the apps that have run there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from millstream.batch.journal import Journal
from millstream.broker import Broker
from millstream.broker_urls import open_broker
from millstream.errors import BrokerUnavailableError, UnknownTableError, UnknownTopicError
from millstream.foundation.paths import app_names, has_run, journal_dir
from millstream.tables.opening import open_tables
from millstream.tables.rows import TableReader

T = TypeVar("T")
_LOOKERS = 8
_SILENT_SECONDS = 15.0


class Place:
    """A data directory and its broker, opened when first asked for and shared by all requests."""

    def __init__(self, data_dir: Path, broker_url: str | None = None) -> None:
        self.data_dir = data_dir
        self.broker_url = broker_url
        self._broker: Broker | None = None
        self._opening = threading.Lock()
        self._silent_until = 0.0
        self._lookers = ThreadPoolExecutor(_LOOKERS, "millstream-web-topics")

    @property
    def broker(self) -> Broker:
        """The broker, open until ``close``."""
        with self._opening:
            if self._broker is None:
                self._broker = open_broker(self.broker_url, self.data_dir)
            return self._broker

    def asked(self, question: Callable[[Broker], T], otherwise: T) -> T:
        """Return what the broker answers, or something else if it is silent; it is then left alone for a while.

        This is for what a page can do without: an app that fails for want of its broker must still be seen.
        """
        if time.monotonic() < self._silent_until:
            return otherwise
        try:
            return question(self.broker)
        except BrokerUnavailableError:
            self._silent_until = time.monotonic() + _SILENT_SECONDS
            return otherwise

    def each_topic(self, look: Callable[[str], T]) -> dict[str, T]:
        """Return what is seen of every topic; several at a time, since a broker may be far away."""

        def looked(name: str) -> tuple[str, T] | None:
            try:
                return name, look(name)
            except UnknownTopicError:  # deleted in this moment
                return None

        return dict(filter(None, self._lookers.map(looked, self.broker.topic_names())))

    def apps(self) -> list[str]:
        """Return the apps that have run here."""
        return app_names(self.data_dir)

    def check_app(self, app: str) -> str:
        """Return ``app`` if it has run here; nothing is looked for on the disk before that is known."""
        if not has_run(self.data_dir, app):
            known = ", ".join(self.apps()) or "none yet"
            raise UnknownTableError(f"app {app!r} has not run here", hint=f"apps here: {known}", app=app)
        return app

    def journal(self, app: str) -> Journal:
        """Return the journal of an app, to be read only."""
        return Journal(journal_dir(self.data_dir, self.check_app(app)), readonly=True)

    def tables(self, app: str) -> Mapping[str, TableReader]:
        """Return the tables of an app, with plain data in their rows."""
        return open_tables(self.data_dir, self.check_app(app))

    def close(self) -> None:
        """Give the broker back."""
        self._lookers.shutdown()
        with self._opening:
            if self._broker is not None:
                self._broker.close()
                self._broker = None
