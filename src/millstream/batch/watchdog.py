"""The watchdog of a run: shows signs of life, says what takes long, and gives up on a batch that hangs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from millstream.batch.activity import Activity, LifeSigns
from millstream.batch.logs import event

_log = logging.getLogger("millstream.watchdog")
_LOOK_SECONDS = 1.0
_LONG_SECONDS = 30.0


class Watchdog:
    """Looks at an activity once a second, from a thread of its own.

    ``detail`` says more about what is waited for, ``abandon`` ends what hangs for longer than ``stuck_after`` seconds.
    """

    def __init__(
        self,
        app: str,
        activity: Activity,
        signs: LifeSigns,
        *,
        stuck_after: float | None = None,
        detail: Callable[[], str] = lambda: "",
        abandon: Callable[[], None] = lambda: None,
    ) -> None:
        self._app = app
        self._activity = activity
        self._signs = signs
        self._stuck_after = stuck_after
        self._detail = detail
        self._abandon = abandon
        self._told_at = _LONG_SECONDS
        self._watched = activity.now
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="millstream-watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop to look."""
        self._ends.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self._look()
            if self._ends.wait(_LOOK_SECONDS):
                return

    def _look(self) -> None:
        doing = self._activity.now
        self._signs.show(doing)
        if doing is not self._watched:
            self._watched, self._told_at = doing, _LONG_SECONDS
        if doing.effort == "idle":
            return
        if doing.seconds >= self._told_at:
            self._told_at *= 2  # soon first, then ever more rarely
            facts = {"app": self._app, "doing": doing.what, "seconds": round(doing.seconds), "detail": self._detail()}
            event(_log, logging.WARNING, "takes long", facts)
        if doing.effort == "working" and self._stuck_after is not None and doing.seconds >= self._stuck_after:
            facts = {"app": self._app, "doing": doing.what, "seconds": round(doing.seconds)}
            event(_log, logging.ERROR, "hangs and is given up", facts)
            self._activity.turn_to(f"gives up on what it was doing ({doing.what})")
            self._abandon()
