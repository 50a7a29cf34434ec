"""The data directory that a server shows: its broker and the apps that have run there."""

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
_POOL_THREADS = 8
_RETRY_SECONDS = 15.0


class DataDirectory:
    """A data directory and its broker, which is opened on first use and shared by all requests."""

    def __init__(self, path: Path, broker_url: str | None = None) -> None:
        self.path = path
        self.broker_url = broker_url
        self._broker: Broker | None = None
        self._opening = threading.Lock()
        self._retry_at = 0.0
        self._pool = ThreadPoolExecutor(_POOL_THREADS, "millstream-web-topics")

    @property
    def broker(self) -> Broker:
        """The broker, open until ``close``."""
        with self._opening:
            if self._broker is None:
                self._broker = open_broker(self.broker_url, self.path)
            return self._broker

    def query_broker(self, query: Callable[[Broker], T], default: T) -> T:
        """Return the result of a query, or ``default`` if the broker is unavailable.

        An unavailable broker is not queried again for a while. This is for optional parts of a page: an app that fails
        because its broker is down must still be shown.
        """
        if time.monotonic() < self._retry_at:
            return default
        try:
            return query(self.broker)
        except BrokerUnavailableError:
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            return default

    def map_topics(self, read: Callable[[str], T]) -> dict[str, T]:
        """Return the result of ``read`` for every topic; several run at a time, since a remote broker is slow."""

        def read_topic(name: str) -> tuple[str, T] | None:
            try:
                return name, read(name)
            except UnknownTopicError:  # it was deleted after it was listed
                return None

        return dict(filter(None, self._pool.map(read_topic, self.broker.topic_names())))

    def apps(self) -> list[str]:
        """Return the apps that have run here."""
        return app_names(self.path)

    def check_app(self, app: str) -> str:
        """Return ``app`` if it has run here; no path is built from a name before this check."""
        if not has_run(self.path, app):
            apps = ", ".join(self.apps()) or "none yet"
            raise UnknownTableError(f"app {app!r} has not run here", hint=f"apps here: {apps}", app=app)
        return app

    def journal(self, app: str) -> Journal:
        """Return the journal of an app, read-only."""
        return Journal(journal_dir(self.path, self.check_app(app)), readonly=True)

    def tables(self, app: str) -> Mapping[str, TableReader]:
        """Return the tables of an app, with plain data in their rows."""
        return open_tables(self.path, self.check_app(app))

    def close(self) -> None:
        """Close the broker."""
        self._pool.shutdown()
        with self._opening:
            if self._broker is not None:
                self._broker.close()
                self._broker = None
