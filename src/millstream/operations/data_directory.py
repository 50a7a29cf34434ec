"""The data directory that a server shows: its broker and the apps that have run there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from millstream.batch.journal import Journal
from millstream.broker import Broker
from millstream.broker_urls import KAFKA, open_broker
from millstream.errors import BrokerUnavailableError, MillstreamError, UnknownTableError, UnknownTopicError
from millstream.foundation.paths import app_names, has_run, journal_dir
from millstream.operations.broker_link import BrokerLink
from millstream.tables.opening import open_tables
from millstream.tables.rows import TableReader

T = TypeVar("T")
_POOL_THREADS = 8


class DataDirectory:
    """A data directory and its broker, which is opened on first use and shared by all requests."""

    def __init__(self, path: Path, broker_url: str | None = None) -> None:
        self.path = path
        self.broker_url = broker_url
        self._is_remote = broker_url is not None and broker_url.startswith(KAFKA)
        self._link = BrokerLink(lambda: open_broker(broker_url, path), broker_url or "", is_remote=self._is_remote)
        self._pool = ThreadPoolExecutor(_POOL_THREADS, "millstream-web-topics")

    @property
    def broker(self) -> Broker:
        """The broker, open until ``close``; raises at once while it cannot be reached."""
        return self._link.broker

    def broker_problem(self) -> MillstreamError | None:
        """Return why the broker cannot be used, or None if it can."""
        try:
            self._link.check()
        except MillstreamError as error:
            return error
        return None

    def query_broker(self, query: Callable[[Broker], T], default: T) -> T:
        """Return the result of a query, or ``default`` if the broker is unavailable.

        This is for optional parts of a page: an app that fails because its broker is down must still be shown.
        """
        try:
            return query(self.broker)
        except BrokerUnavailableError:
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
        broker: Broker | None = None
        if self._is_remote:
            broker = self.query_broker(lambda broker: broker, None)  # without it, state on this host can be read
        return open_tables(self.path, app, broker=broker)

    def close(self) -> None:
        """Close the broker."""
        self._pool.shutdown()
        self._link.close()
