"""Keeps an app running: decides for each failure whether to go on, and leaves one readable report when it does not.

    infrastructure (Spark, a broker, the disk)   again after a pause that grows, with jitter
    user code (a function, a serde)              as the policy of the app says; what arrives here is to end the run
    state, format, definition                    ends the run: no attempt could succeed

The same batch failing three times with the same error ends the run as well, since a fourth attempt would not help.
"""

from __future__ import annotations

import contextlib
import logging
import random
import re
import threading
import time
import traceback
from collections.abc import Callable
from typing import Literal

from millstream.batch.activity import Activity
from millstream.batch.history import FailureNote
from millstream.batch.journal import Journal
from millstream.batch.logs import event
from millstream.batch.loop import BatchLoop, Until
from millstream.errors import (
    BrokerUnavailableError,
    EngineError,
    MillstreamError,
    PartitionsAddedError,
    ProcessingError,
    SerdeError,
    StorageFullError,
    UpgradeError,
)

_log = logging.getLogger("millstream.supervisor")
_MOST_ATTEMPTS = 3
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
_OUTAGES = (BrokerUnavailableError, StorageFullError)
"""What only the world outside can mend: it is waited for, however long that takes."""

Kind = Literal["infrastructure", "user code", "state"]


def kind_of(error: BaseException) -> Kind:
    """Say on whose side a failure is."""
    if isinstance(error, ProcessingError | SerdeError):
        return "user code"
    is_passing = isinstance(error, MillstreamError) and error.retryable
    return "infrastructure" if is_passing else "state"


class Supervisor:
    """Runs the loop of an app, made anew for each attempt."""

    def __init__(
        self,
        app: str,
        journal: Journal,
        make_loop: Callable[[], BatchLoop],
        *,
        stopping: threading.Event,
        activity: Activity,
        lay_out_again: Callable[[], None] | None = None,
    ) -> None:
        """Call ``lay_out_again`` when a source topic has got partitions; ``make_loop`` then reads these too."""
        self._lay_out_again = lay_out_again
        self._app = app
        self._journal = journal
        self._make_loop = make_loop
        self._stopping = stopping
        self._activity = activity
        self._batch = 0
        self._seen: dict[str, int] = {}
        """How often the batch at hand failed with each error."""

    def run(self, until: Until = "stopped") -> None:
        """Run until the loop ends by itself, or fails for good."""
        with contextlib.suppress(MillstreamError):
            self._journal.note_failure(None)
        while True:
            try:
                self._make_loop().run(until)
                return
            except PartitionsAddedError as error:
                pause = self._adopt_partitions(error, until)
            except MillstreamError as error:
                pause = self._after(error, until)
            if self._stopping.wait(pause):
                return

    def _adopt_partitions(self, error: PartitionsAddedError, until: Until) -> float:
        """Lay the app out over the new partitions, or end the run if its state does not allow that."""
        if self._lay_out_again is None:
            return self._after(error, until)
        try:
            self._lay_out_again()
        except UpgradeError as refused:
            error = PartitionsAddedError(
                f"{error.message}, and its state is kept by partition",
                hint="if the old partitions are read to their ends, move the state with: millstream rescale APP "
                f"--partitions {error.facts['partitions']}; else start over with: millstream reset {self._app}; "
                "no record of the new partitions was skipped",
                **error.facts,
            )
            error.__cause__ = refused
            return self._after(error, until)
        event(_log, logging.WARNING, "partitions added", {"app": self._app, **error.facts})
        return 0.0

    def _after(self, error: MillstreamError, until: Until) -> float:
        """Return how long to pause before the next attempt, or raise what ends the run."""
        batch = self._batch_at_hand()
        if batch != self._batch:
            self._batch, self._seen = batch, {}
        looks = _signature(error)
        attempts = self._seen[looks] = self._seen.get(looks, 0) + 1
        kind = kind_of(error)
        waits = isinstance(error, _OUTAGES) and until == "stopped"
        goes_on = kind == "infrastructure" and (waits or attempts < _MOST_ATTEMPTS)
        self._note(error, kind, attempts, goes_on)
        if not goes_on:
            raise error if kind != "infrastructure" else self._stuck(error, attempts)
        failures = sum(self._seen.values())
        pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0**failures) * random.uniform(0.5, 1.0)
        self._activity.turn_to(f"waits {pause:.0f} s to try again, since {error.message}")
        return pause

    def _batch_at_hand(self) -> int:
        try:
            progress, planned = self._journal.read()
        except MillstreamError:
            return self._batch
        return planned.number if planned is not None else progress.done + 1

    def _stuck(self, error: MillstreamError, attempts: int) -> MillstreamError:
        if attempts < _MOST_ATTEMPTS:
            return error
        stuck = EngineError(
            f"batch {self._batch} failed {attempts} times with the same error, so the app was stopped: {error.message}",
            hint=f"nothing is lost, the batch comes first at the next start; see: millstream status {self._app}",
            batch=self._batch,
        )
        stuck.__cause__ = error
        return stuck

    def _note(self, error: MillstreamError, kind: Kind, attempts: int, goes_on: bool) -> None:
        """Leave a report of the failure in the log and in the journal, where it can be read after the run."""
        note = FailureNote(
            at=time.time_ns() // 1_000_000,
            batch=self._batch,
            kind=kind,
            attempts=attempts,
            code=error.code,
            message=error.message,
            hint=error.hint,
            stack="".join(traceback.format_exception(error)),
            goes_on=goes_on,
        )
        level = logging.WARNING if goes_on else logging.ERROR
        facts = {"app": self._app, "batch": note.batch, "kind": kind, "attempt": attempts, "error": note.message}
        event(_log, level, "failed, tries again" if goes_on else "failed, stops", facts)
        with contextlib.suppress(MillstreamError):  # with a full disk there is only the log
            self._journal.note_failure(note)


def _signature(error: MillstreamError) -> str:
    """Return what two errors have in common that are the same but for numbers: ports, processes, tasks."""
    return f"{error.code}: {re.sub(r'[0-9]+', '#', error.message)}"
