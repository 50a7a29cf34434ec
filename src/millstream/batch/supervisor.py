"""Keep an app running: decide for each failure whether to retry, and report the failure if not.

    infrastructure (Spark, a broker, the disk)   retry after a growing pause, with jitter
    user code (a function, a serde)              end the run; the error policy of the app has already been applied
    the function of a delivery                   retry after pauses that grow further: the app goes on meanwhile
    state, format, definition                    end the run: no attempt could succeed
    any other exception                          end the run with an InternalError; an OSError, such as too many open
                                                 files, is infrastructure

A batch that fails three times with the same error ends the run too.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import random
import re
import threading
import time
import traceback
from collections.abc import Callable
from typing import Literal, Protocol

from millstream.batch.activity import Activity
from millstream.batch.history import FailureReport
from millstream.batch.logs import log_event
from millstream.batch.loop import Until
from millstream.errors import (
    BrokerUnavailableError,
    DeliveryError,
    DeliveryFunctionError,
    EngineError,
    InternalError,
    MillstreamError,
    PartitionsAddedError,
    ProcessingError,
    SerdeError,
    StorageFullError,
    TargetUnavailableError,
    UpgradeError,
)

_log = logging.getLogger("millstream.supervisor")
_MAX_ATTEMPTS = 3
_LOOK_SECONDS = 0.25  # how long a request to pause waits at most while an outage is waited for
_FIRST_PAUSE_SECONDS = 0.5
_MAX_PAUSE_SECONDS = 30.0
_MAX_PAUSE_OF_FUNCTIONS_SECONDS = 120.0  # not longer: some libraries do not report outages as OSError
_OUTAGES = (BrokerUnavailableError, StorageFullError, DeliveryError, TargetUnavailableError)
"""Errors that end without a change of the app; a run waits for that, however long it takes."""

Kind = Literal["infrastructure", "user code", "state"]


def kind_of(error: BaseException) -> Kind:
    """Classify a failure by its cause."""
    if isinstance(error, ProcessingError | SerdeError | DeliveryFunctionError):
        return "user code"
    is_retryable = isinstance(error, MillstreamError) and error.retryable
    return "infrastructure" if is_retryable else "state"


class Loop(Protocol):
    """Runs batches from where the last loop has ended."""

    def run(self, until: Until) -> None: ...


class FailureLog(Protocol):
    """Knows which batch is the current one, and stores why it failed."""

    def current_batch(self) -> int: ...
    def set_failure(self, failure: FailureReport | None) -> None: ...


class Supervisor:
    """Runs the loop of an app, a source or a sink; each attempt makes a new loop."""

    def __init__(
        self,
        app: str,
        journal: FailureLog,
        make_loop: Callable[[], Loop],
        *,
        stopping: threading.Event,
        activity: Activity,
        lay_out_again: Callable[[], None] | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Call ``lay_out_again`` when a source topic has got partitions; ``make_loop`` then reads these too.

        ``is_over`` says whether to end instead of another attempt, also during the pause before it.
        """
        self._lay_out_again = lay_out_again
        self._is_over = is_over
        self._app = app
        self._journal = journal
        self._make_loop = make_loop
        self._stopping = stopping
        self._activity = activity
        self._batch = 0
        self._seen: dict[str, int] = {}
        """How often the current batch has failed with each error."""

    def run(self, until: Until = "stopped") -> None:
        """Run until the loop ends, or an error ends the run."""
        with contextlib.suppress(MillstreamError, OSError):
            self._journal.set_failure(None)
        while True:
            try:
                self._make_loop().run(until)
                return
            except PartitionsAddedError as error:
                pause = self._adopt_partitions(error, until)
            except Exception as error:
                pause = self._pause_after(_as_millstream_error(error), until)
            if self._ends_within(pause):
                return

    def _ends_within(self, seconds: float) -> bool:
        """Wait, and return early if the run is to end."""
        end = time.monotonic() + seconds
        while not self._stopping.wait(max(0.0, min(_LOOK_SECONDS, end - time.monotonic()))):
            if self._is_over():
                return True
            if time.monotonic() >= end:
                return False
        return True

    def _adopt_partitions(self, error: PartitionsAddedError, until: Until) -> float:
        """Lay the app out over the new partitions, or end the run if its state does not allow that."""
        if self._lay_out_again is None:
            return self._pause_after(error, until)
        try:
            self._lay_out_again()
        except UpgradeError as rejected:
            error = PartitionsAddedError(
                f"{error.message}, and its state is kept by partition",
                hint="if the old partitions are read to their ends, move the state with: millstream rescale APP "
                f"--partitions {error.facts['partitions']}; else start over with: millstream reset {self._app}; "
                "no record of the new partitions was skipped",
                **error.facts,
            )
            error.__cause__ = rejected
            return self._pause_after(error, until)
        log_event(_log, logging.WARNING, "partitions added", {"app": self._app, **error.facts})
        return 0.0

    def _pause_after(self, error: MillstreamError, until: Until) -> float:
        """Return the pause before the next attempt, or raise the error that ends the run."""
        batch = self._current_batch()
        if batch != self._batch:
            self._batch, self._seen = batch, {}
        signature = _signature(error)
        attempts = self._seen[signature] = self._seen.get(signature, 0) + 1
        kind = kind_of(error)
        is_outage = isinstance(error, _OUTAGES) and until == "stopped"
        may_retry = kind == "infrastructure" or isinstance(error, DeliveryFunctionError)
        retries = may_retry and (is_outage or attempts < _MAX_ATTEMPTS)
        self._report_failure(error, kind, attempts, retries=retries)
        if not retries:
            raise error if kind != "infrastructure" else self._final_error(error, attempts)
        failures = sum(self._seen.values())
        longest = _MAX_PAUSE_SECONDS if kind == "infrastructure" else _MAX_PAUSE_OF_FUNCTIONS_SECONDS
        pause = min(longest, _FIRST_PAUSE_SECONDS * 2.0 ** min(failures, 20)) * random.uniform(0.5, 1.0)
        self._activity.set(f"retrying in {pause:.0f} s after an error: {error.message}", "retrying")
        return pause

    def _current_batch(self) -> int:
        try:
            return self._journal.current_batch()
        except (MillstreamError, OSError):
            return self._batch

    def _final_error(self, error: MillstreamError, attempts: int) -> MillstreamError:
        if attempts < _MAX_ATTEMPTS or isinstance(error, DeliveryError | TargetUnavailableError):
            return error
        final = EngineError(
            f"batch {self._batch} failed {attempts} times with the same error, so the app was stopped: {error.message}",
            hint=f"nothing is lost: the next start runs the batch first; see: millstream status {self._app}",
            batch=self._batch,
        )
        final.__cause__ = error
        return final

    def _report_failure(self, error: MillstreamError, kind: Kind, attempts: int, *, retries: bool) -> None:
        """Write the failure to the log and to the journal, where it can be read after the run."""
        report = FailureReport(
            at=time.time_ns() // 1_000_000,
            batch=self._batch,
            kind=kind,
            attempts=attempts,
            code=error.code,
            message=error.message,
            hint=error.hint,
            stack="".join(traceback.format_exception(error)),
            goes_on=retries,
        )
        level = logging.WARNING if retries else logging.ERROR
        facts = {"app": self._app, "batch": report.batch, "kind": kind, "attempt": attempts, "error": report.message}
        log_event(_log, level, "failed, retrying" if retries else "failed, stopping", facts)
        with contextlib.suppress(MillstreamError, OSError):  # if the disk is full, there is only the log
            self._journal.set_failure(report)


def _signature(error: MillstreamError) -> str:
    """Return an error without its numbers, such as ports, processes and tasks."""
    return f"{error.code}: {re.sub(r'[0-9]+', '#', error.message)}"


def _as_millstream_error(error: Exception) -> MillstreamError:
    """Return the error itself, or one that describes an exception that no other part has translated."""
    if isinstance(error, MillstreamError):
        return error
    text = f"{type(error).__name__}: {error}".partition("\n")[0]
    translated: MillstreamError
    if isinstance(error, OSError):
        is_out_of_files = error.errno in (errno.EMFILE, errno.ENFILE)
        hint = "raise the limit of open files: ulimit -n" if is_out_of_files else "the batch is run again"
        translated = EngineError(f"the system refused a call: {text}", hint=hint)
    else:
        translated = InternalError(
            f"an unexpected error ended the run: {text}",
            hint="no batch is lost; report it with the stack of this error",
        )
    translated.__cause__ = error
    return translated
