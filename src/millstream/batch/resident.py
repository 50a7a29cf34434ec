"""Resident mode, inside the task: plan and run small batches without the driver.

The resident task runs the same loop as the driver, over the same journal, and holds the app's lease while it does.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from millstream.batch.assembly import Assembly
from millstream.batch.control_socket import TaskSocket
from millstream.batch.execute import run_batch
from millstream.batch.journal import Journal
from millstream.batch.journal_changelog import JournalChangelog
from millstream.batch.journal_files import JournalFiles
from millstream.batch.lease import Lease
from millstream.batch.loop import Execute, LoopOptions, Until
from millstream.batch.report import BatchReport
from millstream.batch.shared_journal import Owner, SharedJournal
from millstream.batch.write_behind import DeferredJournal, WriteBehind, can_write_behind
from millstream.broker import Broker
from millstream.task.changelog import ChangelogTopic
from millstream.task.environment import TaskEnvironment
from millstream.task.garbage import freeze_loaded_objects

_LEASE_SECONDS = 10.0
_SWITCH_SECONDS = 0.0005


class ResidentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long a task stays resident, and the files through which it works with the driver."""

    journal: str
    lease: str
    socket: str
    """The address of the driver's control socket."""
    until: Until
    seconds: float
    """The longest time that the task stays resident."""
    max_records: int
    """With a larger backlog the task hands control back to the driver."""
    journal_topic: ChangelogTopic | None = None
    journal_checkpoint: str | None = None
    """Where the journal is stored outside the host, if it is: in a topic or in a checkpoint."""
    owner: Owner | None = None
    """The run that the task belongs to, if the journal is stored outside the host."""
    fence: bool = True
    """Whether tasks of earlier batches may still be running."""

    def journal_changelog(self, app: str, broker: Broker) -> SharedJournal | None:
        """Return where the journal is stored outside the host."""
        if self.owner is not None and self.journal_topic is not None:
            return JournalChangelog(broker, app, self.journal_topic, self.owner)
        if self.owner is not None and self.journal_checkpoint is not None:
            return JournalFiles(self.journal_checkpoint, app, self.owner)
        return None


def run_resident_task(assembly: Assembly, settings: ResidentSettings) -> None:
    """Run small batches until the backlog is too large, time is up, the driver asks for it, or all is processed."""
    env = assembly.environment()
    lease = Lease(env.app, Path(settings.lease))
    lease.acquire(_LEASE_SECONDS)
    try:
        with TaskSocket(settings.socket) as control, _short_switch_interval():
            freeze_loaded_objects()
            if can_write_behind(env):
                _run_behind(assembly, env, settings, control)
            else:
                changelog = settings.journal_changelog(env.app, env.broker)
                journal = Journal(Path(settings.journal), durable=env.durable, changelog=changelog)
                journal.join()
                execute = functools.partial(run_batch, env)
                try:
                    _run_loop(assembly, settings, control, journal, execute, control.send_report)
                finally:
                    journal.leave()
    finally:
        lease.release()


@contextmanager
def _short_switch_interval() -> Iterator[None]:
    """Make background threads, such as those that clean topics, yield to the batches ten times as fast as usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def _run_behind(assembly: Assembly, env: TaskEnvironment, settings: ResidentSettings, control: TaskSocket) -> None:
    changelog = settings.journal_changelog(env.app, env.broker)
    journal = DeferredJournal(Path(settings.journal), durable=env.durable, changelog=changelog)
    journal.join()
    behind = WriteBehind(env, journal, control.send_report, fence=settings.fence)
    try:
        _run_loop(assembly, settings, control, journal, behind, behind.defer_report, behind.flush)
    finally:
        behind.close()
        journal.leave()


def _run_loop(
    assembly: Assembly,
    settings: ResidentSettings,
    control: TaskSocket,
    journal: Journal,
    execute: Execute,
    on_batch: Callable[[BatchReport], None],
    on_idle: Callable[[], None] | None = None,
) -> None:
    planner = assembly.small_planner(settings.max_records)
    deadline = time.monotonic() + settings.seconds
    options = LoopOptions(
        on_batch=on_batch,
        stopping=control.stop_requested,
        is_over=lambda: planner.is_backlog_too_large or bool(planner.unread_partitions) or time.monotonic() >= deadline,
        on_idle=on_idle,
        on_waiting=control.send_waiting,
    )
    try:
        assembly.loop(journal, planner, execute, options).run(settings.until)
    finally:
        planner.stop()
