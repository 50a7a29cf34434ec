"""A copy of an app's journal and state that follows a run on another host, kept up by a thread.

The copy only makes it faster to take over. So no problem with it ends the standby, and the standby does not wait for it
while it watches the run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from millstream.admin.changelogs import restore_states
from millstream.admin.journals import fetch_journal
from millstream.batch.app_spec import AppSettings
from millstream.batch.journal import Journal
from millstream.batch.journal_changelog import find_journal_topic
from millstream.batch.restoring import Restoring
from millstream.broker import Broker
from millstream.errors import MillstreamError, StateError
from millstream.foundation.paths import journal_dir, state_dir
from millstream.task.changelog import CatchUp

_PAUSE_SECONDS = 1.0
_PATIENCE_SECONDS = 300.0  # a snapshot is loaded in one step


class WarmCopy:
    """Copies until it is closed; ``step`` and ``problem`` say how far it is and what keeps it from going on."""

    def __init__(self, app: AppSettings, broker: Broker, on_step: Callable[[str], None] = lambda _: None) -> None:
        self._app = app
        self._broker = broker
        self._on_step = on_step
        self.step = "nothing is copied yet"
        self.problem = ""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="millstream-warm-copy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop copying; a run that takes over continues from what has been copied."""
        self._closing.set()
        self._thread.join(_PATIENCE_SECONDS)
        if self._thread.is_alive():  # it might write to the state while a run uses it
            raise StateError(
                f"the copy of app {self._app.id!r} does not stop: {self.step}",
                hint="start the standby again; it continues from what has been copied",
            )

    def _follow(self) -> None:
        while not self._closing.is_set():
            began = time.monotonic()
            try:
                self._copy()
                self.problem = ""
            except _Closing:
                return
            except MillstreamError as error:
                self.problem = str(error)
            except Exception as error:
                self.problem = f"{type(error).__name__}: {error}"
            self._closing.wait(max(0.0, _PAUSE_SECONDS - (time.monotonic() - began)))

    def _copy(self) -> None:
        """Bring journal and state on this host up to date, as far as the topics can be read."""
        app = self._app
        if find_journal_topic(self._broker, app.id) is None:
            self.step = "the app has no journal topic yet"
            return
        fetch_journal(self._broker, app.data_dir, app.id, is_locked=True)
        journal = Journal(journal_dir(app.data_dir, app.id))
        directory, snapshots = state_dir(app.data_dir, app.id), app.config.checkpoint
        restored = restore_states(app.id, directory, journal, self._broker, _Copying(self), snapshots)
        self.step = f"standing by at batch {journal.read()[0].done}, {len(restored)} tasks were behind"
        self._on_step(self.step)

    def check_is_open(self) -> None:
        """End a copy that is no longer needed."""
        if self._closing.is_set():
            raise _Closing


class _Closing(Exception):  # noqa: N818 - it is not an error
    """The copy was closed."""


class _Copying(Restoring):
    """Reports the progress of a copy to the standby, and ends it when it is closed."""

    def __init__(self, copy: WarmCopy) -> None:
        super().__init__()
        self._copy = copy

    def update(self, progress: CatchUp) -> None:
        self._copy.check_is_open()
        self._copy.step = self.text(progress)
