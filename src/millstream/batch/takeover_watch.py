"""Notice that another run has taken an app over, also while this run waits for something that never comes.

A run that writes its journal notices it by itself. One that was cut off may have lost its executors meanwhile, and
waits for Spark to run a batch; or it has nothing to do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from millstream.batch.journal import Journal
from millstream.errors import FencedError, MillstreamError

_CHECK_SECONDS = 5.0


class TakeoverWatch:
    """A thread that looks for another owner of a journal, and calls ``on_fenced`` from then on until it is closed."""

    def __init__(
        self, journal: Journal, on_fenced: Callable[[FencedError], None], *, seconds: float = _CHECK_SECONDS
    ) -> None:
        self._journal = journal
        self._on_fenced = on_fenced
        self._seconds = seconds
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="millstream-takeover", daemon=True)
        if journal.changelog is not None:
            self._thread.start()

    def _watch(self) -> None:
        while not self._closing.wait(self._seconds):
            try:
                self._journal.look_for_takeover()
            except FencedError as error:
                self._on_fenced(error)
            except MillstreamError:
                continue  # an outage; the run itself reports it

    def close(self) -> None:
        """Stop looking."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
