"""The resident gear from within: a task that repeats plan, run and done by itself while there is little to do.

It runs the same loop as the driver, over the same journal, and holds the app's lease meanwhile.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from millstream.batch.execute import run_batch, task_names
from millstream.batch.idle import IdleInputs
from millstream.batch.journal import Journal
from millstream.batch.lease import Lease
from millstream.batch.loop import BatchLoop, Execute, Until
from millstream.batch.planner import BatchSize, SmallPlanner
from millstream.batch.report import BatchReport
from millstream.batch.timers import timed_tasks
from millstream.batch.topics import SourceTopics
from millstream.batch.wire import TaskEnd
from millstream.batch.write_behind import PatientJournal, WriteBehind, may_write_behind
from millstream.task.environment import TaskEnvironment
from millstream.task.garbage import freeze_loaded_objects

_LEASE_SECONDS = 10.0
_TURN_SECONDS = 0.0005


class Residence(msgspec.Struct, frozen=True, kw_only=True):
    """The terms on which a task may stay."""

    journal: str
    lease: str
    wire: str
    until: Until
    seconds: float
    """How long it may stay."""
    most: int
    """It leaves when more records than these are waiting."""


def reside(site: TaskEnvironment, terms: Residence) -> None:
    """Run small batches until there is too much to do, time is up, the driver says so, or there is nothing left."""
    lease = Lease(site.app, Path(terms.lease))
    lease.take(_LEASE_SECONDS)
    try:
        with TaskEnd(terms.wire) as wire, _short_turns():
            freeze_loaded_objects()
            if may_write_behind(site):
                _run_behind(site, terms, wire)
            else:
                journal = Journal(Path(terms.journal), durable=site.durable)
                _loop(site, terms, wire, journal, functools.partial(run_batch, site), wire.tell).run(terms.until)
    finally:
        lease.give_back()


@contextmanager
def _short_turns() -> Iterator[None]:
    """Have threads that clean topics beside the batches give way to them ten times as fast as usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_TURN_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def _run_behind(site: TaskEnvironment, terms: Residence, wire: TaskEnd) -> None:
    behind = WriteBehind(site, PatientJournal(Path(terms.journal), durable=site.durable), wire.tell)
    try:
        _loop(site, terms, wire, behind.journal, behind, behind.tell, behind.rest).run(terms.until)
    finally:
        behind.close()


def _loop(
    site: TaskEnvironment,
    terms: Residence,
    wire: TaskEnd,
    journal: Journal,
    execute: Execute,
    tell: Callable[[BatchReport], None],
    rest: Callable[[], None] | None = None,
) -> BatchLoop:
    size = BatchSize(terms.most, terms.seconds)
    topics = SourceTopics(site.layout, site.broker, dead_letters=site.policies.dead_letter_topic)
    whole = site.layout.plan.global_tables
    idle = IdleInputs(site.layout)
    planner = SmallPlanner(site.broker, topics, terms.most, timed=timed_tasks(site.layout), whole=whole, idle=idle)
    deadline = time.monotonic() + terms.seconds
    return BatchLoop(
        app=site.app,
        broker=site.broker,
        journal=journal,
        planner=planner,
        size=size,
        task_names=task_names(site.layout),
        execute=execute,
        on_batch=tell,
        stopping=wire.left,
        is_over=lambda: planner.too_much or time.monotonic() >= deadline,
        rest=rest,
    )
