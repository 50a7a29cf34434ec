"""Wait for the end of the run of an app on another host, with a copy of its journal and state that stays up to date.

A run is a member of a group; the brokers remove a member that sends no heartbeats. A standby only looks at the group.
When it has no members, the standby takes the app over as any other start does: if the old run is still alive after
all, behind a broken network, it is fenced.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable

from millstream.admin.changelogs import restore_states
from millstream.admin.journals import fetch_journal
from millstream.batch.app_spec import AppSettings
from millstream.batch.journal import Journal
from millstream.batch.journal_changelog import find_journal_topic
from millstream.broker import Broker, SupportsMembership
from millstream.errors import BrokerError, MillstreamError, StateError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.names import journal_topic_name
from millstream.foundation.paths import journal_dir, lock_file, state_dir
from millstream.foundation.text import printable

_log = logging.getLogger(__name__)
_SESSION = "6 s"
_POLL_SECONDS = 1.0


def presence_group(app: str) -> str:
    """Return the group whose member is the run of an app."""
    return f"{app}.running"


class Presence:
    """The membership of a run in the group of its app, kept up by a thread."""

    def __init__(self, app: str, broker: SupportsMembership) -> None:
        self._member = broker.join_group(presence_group(app), [journal_topic_name(app)], session_timeout=_SESSION)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._refresh, name="millstream-presence", daemon=True)
        self._thread.start()

    def _refresh(self) -> None:
        while not self._closing.wait(_POLL_SECONDS / 4):
            with contextlib.suppress(MillstreamError):  # an outage; the run itself reports it
                self._member.refresh(lambda _: None)

    def close(self) -> None:
        """Leave the group, so that a standby takes over at once."""
        self._closing.set()
        self._thread.join()
        with contextlib.suppress(MillstreamError):
            self._member.leave()


def is_running(broker: Broker, app: str) -> bool:
    """Whether a run of an app is alive on any host.

    Only the coordinator of the group is asked: a list of all groups, or of committed offsets, needs an answer of
    every broker, and one of them may have been lost together with the run.
    """
    return bool(broker.members(presence_group(app)))


class Standby:
    """Waits until no run of an app is alive; ``on_step`` is called with what it does."""

    def __init__(self, app: AppSettings, broker: Broker, on_step: Callable[[str], None] = lambda _: None) -> None:
        self._app = app
        self._broker = broker
        self._on_step = on_step
        self._problem = ""
        self.stopping = threading.Event()

    def wait(self) -> bool:
        """Return True when the app has to be taken over, False after ``stopping`` was set."""
        lock = FileLock(lock_file(self._app.data_dir, self._app.id))
        has_own_disk = lock.acquire()  # otherwise the run uses the same data directory, which is up to date by itself
        try:
            while not self.stopping.is_set():
                began = time.monotonic()
                try:
                    if not is_running(self._broker, self._app.id):
                        return True
                    if has_own_disk:
                        self._copy()
                    self._report("")
                except BrokerError as error:  # without the cluster there is nothing to take over
                    self._report(str(error))
                self.stopping.wait(max(0.0, _POLL_SECONDS - (time.monotonic() - began)))
            return False
        finally:
            if has_own_disk:
                lock.release()

    def _report(self, problem: str) -> None:
        """Log a problem once, not at every poll."""
        if problem and problem != self._problem:
            _log.warning("standby.cannot_watch app=%s: trying again; %s", self._app.id, printable(problem))
        self._problem = problem

    def _copy(self) -> None:
        """Bring journal and state on this host up to date, as far as the topics can be read."""
        app = self._app
        if find_journal_topic(self._broker, app.id) is None:
            return
        fetch_journal(self._broker, app.data_dir, app.id, is_locked=True)
        journal = Journal(journal_dir(app.data_dir, app.id))
        with contextlib.suppress(StateError):  # the run has written more since its journal was read
            directory, snapshots = state_dir(app.data_dir, app.id), app.config.checkpoint
            restored = restore_states(app.id, directory, journal, self._broker, snapshots=snapshots)
            batch = journal.read()[0].done
            self._on_step(f"standing by at batch {batch}, {len(restored)} tasks were behind")
