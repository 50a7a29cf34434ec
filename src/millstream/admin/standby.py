"""Wait for the end of the run of an app on another host, with a copy of its journal and state that stays up to date.

A standby looks at the group of the run (``presence.py``). When that has no members, the standby takes the app over as
any other start does: if the old run is still alive after all, behind a broken network, it is fenced.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from millstream.admin.presence import live_runs, presence_group
from millstream.admin.warm_copy import WarmCopy
from millstream.batch.app_spec import AppSettings
from millstream.batch.logs import log_event
from millstream.broker import Broker, GroupMember
from millstream.errors import BrokerError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import lock_file

_log = logging.getLogger(__name__)
_POLL_SECONDS = 1.0
_REPORT_SECONDS = 60.0


class Standby:
    """Waits until no run of the app is alive; ``on_step`` is called with the progress of its copy."""

    def __init__(self, app: AppSettings, broker: Broker, on_step: Callable[[str], None] = lambda _: None) -> None:
        self._app = app
        self._broker = broker
        self._on_step = on_step
        self._runs: tuple[GroupMember, ...] = ()
        self._problems: set[str] = set()
        """Those that were logged since ``_reported_at``."""
        self._reported_at = float("-inf")
        self.stopping = threading.Event()

    def wait(self) -> bool:
        """Return True when the app has to be taken over, False after ``stopping`` was set."""
        copy: WarmCopy | None = None
        with ExitStack() as held:
            lock = FileLock(lock_file(self._app.data_dir, self._app.id))
            has_own_disk = lock.acquire()  # otherwise the run uses the same data directory, which is up to date
            if has_own_disk:
                held.callback(lock.release)
            while not self.stopping.is_set():
                began = time.monotonic()
                problem = ""
                try:
                    self._runs = live_runs(self._broker, self._app.id)
                    if not self._runs:
                        return True
                    if has_own_disk and copy is None:
                        copy = WarmCopy(self._app, self._broker, self._on_step)
                        held.callback(copy.close)
                except BrokerError as error:  # without the cluster there is nothing to take over
                    problem = str(error)
                self._report(problem, copy)
                self.stopping.wait(max(0.0, _POLL_SECONDS - (time.monotonic() - began)))
            return False

    def _report(self, problem: str, copy: WarmCopy | None) -> None:
        """Log what this standby waits for: a new problem at once, and everything once a minute."""
        problem = problem or ("" if copy is None else copy.problem)
        is_due = time.monotonic() - self._reported_at >= _REPORT_SECONDS
        if is_due:
            self._reported_at = time.monotonic()
            self._problems.clear()
        elif not problem or problem in self._problems:
            return
        self._problems.add(problem)
        facts = {
            "app": self._app.id,
            "group": presence_group(self._app.id),
            "runs": ", ".join(f"process {run.process} on {run.host}" for run in self._runs) or "unknown",
            "copy": "none: this host shares its data directory with the run" if copy is None else copy.step,
        }
        if problem:
            log_event(_log, logging.WARNING, "standing by, trying again", {**facts, "problem": problem})
        else:
            log_event(_log, logging.INFO, "standing by", facts)
