"""Run the sources and sinks of an app beside it, each in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from millstream.batch.app_spec import AppSettings
from millstream.batch.connector_status import forget_connectors
from millstream.batch.loop import Until
from millstream.connect.connector import Connector

_STATUS_SECONDS = 1.0


class Connectors:
    """The sources and sinks of an app. While the system of one is down it tries again, and the others go on."""

    def __init__(self, app: AppSettings, connectors: Sequence[Connector]) -> None:
        self._connectors = connectors
        self._error: BaseException | None = None
        if connectors:
            forget_connectors(app.data_dir, app.id, {connector.name for connector in connectors})

    @contextmanager
    def beside(self, until: Until, stop_app: Callable[[], None], *, survive: bool = False) -> Iterator[None]:
        """Run all in threads while the app runs in the block.

        If the app only catches up, sources catch up before it and sinks after it. With ``survive`` an error of one
        does not stop the others and the app; it waits until the user restarts it.
        """
        if until == "caught-up":
            self._catch_up("source")
            yield
            self._catch_up("sink")
            return
        threads = [
            threading.Thread(target=self._run, args=(connector, stop_app, survive), daemon=True)
            for connector in self._connectors
        ]
        done = threading.Event()
        if threads:
            threads.append(threading.Thread(target=self._write_statuses, args=(done,), daemon=True))
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stop()
            for thread in threads[:-1]:
                thread.join()
            done.set()
            for thread in threads[-1:]:
                thread.join()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Let all end after their current batch."""
        for connector in self._connectors:
            connector.stop()

    def _catch_up(self, direction: str) -> None:
        for connector in self._connectors:
            if connector.direction == direction:
                connector.write_status()
                try:
                    connector.run("caught-up")
                finally:
                    connector.write_status()

    def _run(self, connector: Connector, stop_app: Callable[[], None], survive: bool) -> None:
        try:
            connector.run("stopped", survives=survive)
        except BaseException as error:  # that no further attempt could mend
            self._error = self._error or error
            stop_app()

    def _write_statuses(self, done: threading.Event) -> None:
        """Store the status of all every second, and once at the end."""
        while True:
            is_last = done.wait(_STATUS_SECONDS)
            for connector in self._connectors:
                connector.write_status()
            if is_last:
                return
