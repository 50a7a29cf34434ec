"""A source or sink of an app: runs its loop under a supervisor, obeys pause and restart, and writes its status."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from millstream.batch.app_spec import AppSettings
from millstream.batch.connector_status import ConnectorState, ConnectorStatus, Direction, write_status
from millstream.batch.history import FailureReport
from millstream.batch.logs import log_event
from millstream.batch.loop import LoopOptions, Until
from millstream.batch.supervisor import FailureLog, Loop, Supervisor
from millstream.connect.control import Control, read_control
from millstream.connect.protocols import ConnectorContext
from millstream.errors import MillstreamError
from millstream.foundation.paths import connectors_dir

_log = logging.getLogger("millstream.connect")
_LOOK_SECONDS = 0.25  # how long a request to pause, resume or restart waits at most


@dataclass
class Counters:
    """What a source or sink has done since its run started; set by its thread, read by others."""

    records: int = 0
    rejected: int = 0
    waiting: int | None = None
    event_time: int | None = None
    gauges: dict[str, float] = field(default_factory=dict)


class ConnectorJournal(FailureLog, Protocol):
    """The journal of a source or sink."""

    def failure(self) -> FailureReport | None: ...
    def stored_lineage(self) -> str: ...


class Work(Protocol):
    """What a source or sink does in its thread."""

    @property
    def journal(self) -> ConnectorJournal: ...

    def loop(self, options: LoopOptions) -> Loop:
        """Return a loop that continues where the last one has ended."""

    def count_waiting(self) -> int | None:
        """Return how much waits to be read or written, None if that is unknown; called by another thread."""

    def close(self) -> None:
        """Close the connection; the next loop opens it again."""


class Connector:
    """One source or sink of an app, in a thread of its own."""

    def __init__(self, app: AppSettings, name: str, direction: Direction, system: str, guarantee: str) -> None:
        self.name = name
        self.direction: Direction = direction
        self.counters = Counters()
        self.stopping = threading.Event()
        self._app = app
        self._system = system
        self._guarantee = guarantee
        self._state: ConnectorState = "stopped"
        self._work: Work | None = None
        self._asked = Control()

    @property
    def context(self) -> ConnectorContext:
        """What the connector may use while it is open."""
        return ConnectorContext(
            name=self.name,
            app=self._app.id,
            directory=connectors_dir(self._app.data_dir, self._app.id) / f"{self.name}.files",
            stopping=self.stopping,
            report=self.counters.gauges.__setitem__,
        )

    def attach(self, work: Work) -> Connector:
        """Set what the connector does, and return the connector."""
        self._work = work
        return self

    @property
    def work(self) -> Work:
        assert self._work is not None
        return self._work

    def run(self, until: Until, *, survives: bool = False) -> None:
        """Run until stopped or, with ``until="caught-up"``, until nothing is waiting.

        With ``survives`` an error that no attempt can mend waits for a restart by the user instead of being raised.
        """
        while not self.stopping.is_set():
            control = self._control()
            if control.paused:
                self._state = "paused"
                if until == "caught-up":
                    return
                self._wait_for_change(control)
                continue
            try:
                self._state = "running"
                self._attempt(until, control)
                if until == "caught-up" and self._control() == control:
                    break
            except MillstreamError as error:
                self._state = "failed"
                if not survives or until == "caught-up":
                    raise
                facts = {"app": self._app.id, "connector": self.name, "error": error.message}
                log_event(_log, logging.ERROR, "connector failed, waiting for a restart", facts)
                self._wait_for_change(control)
        self._state = "stopped"

    def _attempt(self, until: Until, control: Control) -> None:
        options = LoopOptions(stopping=self.stopping, is_over=self._interruption(control))
        supervisor = Supervisor(
            f"{self._app.id}.{self.name}",
            self.work.journal,
            lambda: self.work.loop(options),
            stopping=self.stopping,
            activity=options.activity,
            is_over=options.is_over,
        )
        try:
            supervisor.run(until)
        finally:
            self.work.close()

    def _interruption(self, control: Control) -> Callable[[], bool]:
        """Return what says whether the user has asked for a pause or a restart since ``control`` was read."""
        return lambda: (asked := self._control()).paused or asked.restarts != control.restarts

    def _wait_for_change(self, control: Control) -> None:
        while not self.stopping.wait(_LOOK_SECONDS):
            asked = self._control()
            if (asked.paused, asked.restarts) != (control.paused, control.restarts):
                return

    def _control(self) -> Control:
        """Return what the user asks; if it cannot be read now, what was asked last."""
        with contextlib.suppress(OSError):
            self._asked = read_control(self._app.data_dir, self._app.id, self.name)
        return self._asked

    def stop(self) -> None:
        """Finish the current batch, or the pause before the next attempt, and end."""
        self.stopping.set()

    def write_status(self) -> None:
        """Store the status, where other processes read it."""
        try:
            counters, now = self.counters, time.time_ns() // 1_000_000
            waiting = self.work.count_waiting()
            status = ConnectorStatus(
                name=self.name,
                direction=self.direction,
                system=self._system,
                guarantee=self._guarantee,
                at=now,
                state=self._state,
                batch=self.work.journal.current_batch() - 1,
                lineage=self.work.journal.stored_lineage(),
                waiting=waiting,
                records=counters.records,
                rejected=counters.rejected,
                behind_ms=None if counters.event_time is None else max(0, now - counters.event_time),
                failure=self.work.journal.failure(),
                gauges=dict(counters.gauges),
            )
        except MillstreamError:  # the broker is down, or the topic does not exist yet
            return
        write_status(self._app.data_dir, self._app.id, status)
