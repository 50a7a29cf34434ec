"""The watchdog of a run: it writes heartbeats, warns about slow activities and cancels stuck batches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from millstream.batch.activity import Activity, HeartbeatFile
from millstream.batch.logs import log_event

_log = logging.getLogger("millstream.watchdog")
_CHECK_SECONDS = 1.0
_SLOW_SECONDS = 30.0


class Watchdog:
    """Checks an activity once a second, in its own thread.

    ``detail`` returns more about a slow activity, ``cancel`` ends a batch that runs for more than ``stuck_after``
    seconds.
    """

    def __init__(
        self,
        app: str,
        activity: Activity,
        heartbeats: HeartbeatFile,
        *,
        stuck_after: float | None = None,
        detail: Callable[[], str] = lambda: "",
        cancel: Callable[[], None] = lambda: None,
    ) -> None:
        self._app = app
        self._activity = activity
        self._heartbeats = heartbeats
        self._stuck_after = stuck_after
        self._detail = detail
        self._cancel = cancel
        self._warn_after = _SLOW_SECONDS
        self._watched = activity.now
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="millstream-watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread."""
        self._closing.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self._check()
            if self._closing.wait(_CHECK_SECONDS):
                return

    def _check(self) -> None:
        now = self._activity.now
        self._heartbeats.write(now)
        if now is not self._watched:
            self._watched, self._warn_after = now, _SLOW_SECONDS
        if now.effort == "idle":
            return
        if now.seconds >= self._warn_after:
            self._warn_after *= 2  # the longer it lasts, the rarer the warnings
            facts = {"app": self._app, "doing": now.what, "seconds": round(now.seconds), "detail": self._detail()}
            log_event(_log, logging.WARNING, "slow", facts)
        if now.effort == "working" and self._stuck_after is not None and now.seconds >= self._stuck_after:
            facts = {"app": self._app, "doing": now.what, "seconds": round(now.seconds)}
            log_event(_log, logging.ERROR, "stuck, cancelled", facts)
            self._activity.set(f"cancelling what it was doing ({now.what})")
            self._cancel()
