"""What a server looks at: one data directory, its broker and the apps that have run there."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from millstream.batch.journal import Journal
from millstream.broker import Broker
from millstream.brokers import open_broker
from millstream.errors import UnknownTableError
from millstream.places import app_names, has_run, journal_dir
from millstream.queries.rows import TableReader
from millstream.tables import open_tables


class Place:
    """A data directory and its broker, opened when first asked for and shared by all requests."""

    def __init__(self, data_dir: Path, broker_url: str | None = None) -> None:
        self.data_dir = data_dir
        self.broker_url = broker_url
        self._broker: Broker | None = None
        self._opening = threading.Lock()

    @property
    def broker(self) -> Broker:
        """The broker, open until ``close``."""
        with self._opening:
            if self._broker is None:
                self._broker = open_broker(self.broker_url, self.data_dir)
            return self._broker

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
        with self._opening:
            if self._broker is not None:
                self._broker.close()
                self._broker = None
