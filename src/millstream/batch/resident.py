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

from millstream.batch.assembly import Assembly
from millstream.batch.execute import run_batch
from millstream.batch.journal import Journal
from millstream.batch.lease import Lease
from millstream.batch.loop import BatchLoop, Execute, LoopOptions, Until
from millstream.batch.report import BatchReport
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


def reside(assembly: Assembly, terms: Residence) -> None:
    """Run small batches until there is too much to do, time is up, the driver says so, or there is nothing left."""
    env = assembly.environment()
    lease = Lease(env.app, Path(terms.lease))
    lease.take(_LEASE_SECONDS)
    try:
        with TaskEnd(terms.wire) as wire, _short_turns():
            freeze_loaded_objects()
            if may_write_behind(env):
                _run_behind(assembly, env, terms, wire)
            else:
                journal = Journal(Path(terms.journal), durable=env.durable)
                execute = functools.partial(run_batch, env)
                _loop(assembly, terms, wire, journal, execute, wire.tell).run(terms.until)
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


def _run_behind(assembly: Assembly, env: TaskEnvironment, terms: Residence, wire: TaskEnd) -> None:
    behind = WriteBehind(env, PatientJournal(Path(terms.journal), durable=env.durable), wire.tell)
    try:
        _loop(assembly, terms, wire, behind.journal, behind, behind.tell, behind.rest).run(terms.until)
    finally:
        behind.close()


def _loop(
    assembly: Assembly,
    terms: Residence,
    wire: TaskEnd,
    journal: Journal,
    execute: Execute,
    on_batch: Callable[[BatchReport], None],
    on_idle: Callable[[], None] | None = None,
) -> BatchLoop:
    planner = assembly.small_planner(terms.most)
    deadline = time.monotonic() + terms.seconds
    options = LoopOptions(
        on_batch=on_batch,
        stopping=wire.left,
        is_over=lambda: planner.too_much or bool(planner.unread_partitions) or time.monotonic() >= deadline,
        on_idle=on_idle,
    )
    return assembly.loop(journal, planner, execute, options)
