"""The history of an app's batches: the newest batches in full, a day of sums by minute, the last report of each task,
and the records and time of each step.

The commit that marks a batch as done also stores its report, so the report costs no further write to disk and each
batch has exactly one. Any process on the host can read the history, while the app runs or after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from millstream.batch.report import BatchReport, Totals
from millstream.foundation.storage import Environment
from millstream.foundation.stored import decoding
from millstream.foundation.transactions import Transaction
from millstream.foundation.typed_decoding import decode_msgpack
from millstream.operators.probe import Measured
from millstream.task.report import TaskReport

T = TypeVar("T")
P = ParamSpec("P")

HISTORY = "history"
"""Name of the database, in the environment of the journal."""

BATCHES_KEPT = 1_000
MINUTES_KEPT = 24 * 60
_MINUTE_MS = 60_000
_BATCH, _FAILURE, _MINUTE, _STEPS, _TASK, _TOTALS = b"b", b"f", b"m", b"s", b"t", b"z"
_encode = msgspec.msgpack.Encoder().encode


class FailureReport(msgspec.Struct, frozen=True, kw_only=True):
    """The last failure of an app, at a wall-clock time in milliseconds."""

    at: int
    batch: int
    kind: str
    attempts: int
    """How often the batch has failed with this error."""
    code: str
    message: str
    hint: str | None
    stack: str
    goes_on: bool
    """Whether the run retried the batch."""


class Minute(msgspec.Struct, frozen=True):
    """The sums of the batches that ended within one minute; ``start`` is a wall-clock time in milliseconds."""

    start: int
    totals: Totals


def _decoded_entries(read: Callable[Concatenate[History, P], T]) -> Callable[Concatenate[History, P], T]:
    """Translate the errors of a method that decodes entries."""

    @wraps(read)
    def translated(history: History, /, *args: P.args, **options: P.kwargs) -> T:
        with decoding(history.path):
            return read(history, *args, **options)

    return translated


class History:
    """Reads and writes the history inside the journal's environment."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.path = environment.path

    @property
    def _database(self) -> Any:
        return self._environment.databases[HISTORY]

    def add(self, txn: Transaction, report: BatchReport) -> None:
        """Store a report in a transaction of the journal, and delete old entries."""
        database = self._database
        minute = report.ended_at // _MINUTE_MS
        for key in (_TOTALS, _number(_MINUTE, minute)):
            sums = _decoded(txn.get(key, db=database), Totals) or Totals()
            txn.put(key, _encode(sums.plus(report)), db=database)
        active = [task for task in report.tasks if task.stage]
        for task in active:
            txn.put(_TASK + task.name.encode(), _encode(msgspec.structs.replace(task, measured=None)), db=database)
            if task.measured is not None:
                key = _STEPS + task.stage.encode()
                before = _decoded(txn.get(key, db=database), Measured) or Measured()
                txn.put(key, _encode(before.followed_by(task.measured)), db=database)
        unmeasured = [msgspec.structs.replace(task, measured=None) for task in active]
        stored = msgspec.structs.replace(report, tasks=unmeasured)
        txn.put(_number(_BATCH, report.plan.number), _encode(stored), db=database)
        self._delete_up_to(txn, _BATCH, report.plan.number - BATCHES_KEPT)
        self._delete_up_to(txn, _MINUTE, minute - MINUTES_KEPT)

    def _delete_up_to(self, txn: Transaction, kind: bytes, last: int) -> None:
        """Delete entries with numbers up to ``last``, a few per batch, so that no batch has to delete many."""
        cursor = txn.cursor(db=self._database)
        for _ in range(3):
            if not cursor.set_range(kind) or cursor.key() > _number(kind, max(last, 0)) or cursor.key()[:1] != kind:
                return
            cursor.delete()

    def set_failure(self, txn: Transaction, failure: FailureReport | None) -> None:
        """Store the last failure in a transaction of the journal, or delete it."""
        if failure is None:
            txn.delete(_FAILURE, db=self._database)
        else:
            txn.put(_FAILURE, _encode(failure), db=self._database)

    @_decoded_entries
    def failure(self) -> FailureReport | None:
        """Return the last failure of the current or last run; None if a batch was done since."""
        with self._snapshot() as txn:
            stored = None if txn is None else txn.get(_FAILURE, db=self._database)
        failure = _decoded(stored, FailureReport)
        if failure is None or any(_is_after(report, failure) for report in self.batches(1)):
            return None
        return failure

    @_decoded_entries
    def totals(self) -> Totals:
        """Return the sums since the app's first batch."""
        with self._snapshot() as txn:
            stored = None if txn is None else txn.get(_TOTALS, db=self._database)
        return _decoded(stored, Totals) or Totals()

    @_decoded_entries
    def batches(self, limit: int = BATCHES_KEPT, *, after: int = 0) -> list[BatchReport]:
        """Return the newest reports, oldest first; with ``after`` only those of later batches."""
        reports: list[BatchReport] = []
        with self._snapshot() as txn:
            if txn is None:
                return []
            cursor = txn.cursor(db=self._database)
            has_entry = cursor.set_range(_number(_BATCH, 2**64 - 1))
            has_entry = cursor.prev() if has_entry else cursor.last()
            while has_entry and cursor.key() > _number(_BATCH, after) and len(reports) < limit:
                reports.append(decode_msgpack(cursor.value(), BatchReport))
                has_entry = cursor.prev()
        return reports[::-1]

    @_decoded_entries
    def minutes(self, since: int = 0) -> list[Minute]:
        """Return the sums by minute since a wall-clock time (milliseconds), oldest first, without idle minutes."""
        return [
            Minute(int.from_bytes(key) * _MINUTE_MS, decode_msgpack(value, Totals))
            for key, value in self._all(_MINUTE, (since // _MINUTE_MS).to_bytes(8))
        ]

    @_decoded_entries
    def tasks(self) -> dict[str, TaskReport]:
        """Return the last report of each task that had work, by its name ``stage/partition``."""
        return {key.decode(): decode_msgpack(value, TaskReport) for key, value in self._all(_TASK)}

    @_decoded_entries
    def steps(self) -> dict[str, Measured]:
        """Return the records and time of each step by stage, from the latest batches that were measured."""
        return {key.decode(): decode_msgpack(value, Measured) for key, value in self._all(_STEPS)}

    def _all(self, kind: bytes, start: bytes = b"") -> list[tuple[bytes, bytes]]:
        entries: list[tuple[bytes, bytes]] = []
        with self._snapshot() as txn:
            if txn is None:
                return []
            cursor = txn.cursor(db=self._database)
            if cursor.set_range(kind + start):
                for key, value in cursor:
                    if key[:1] != kind:
                        break
                    entries.append((key[1:], value))
        return entries

    @contextmanager
    def _snapshot(self) -> Iterator[Any]:
        """Yield a snapshot, or None if no batch is done yet."""
        self._environment.open_databases((HISTORY,))
        if self._database is None:
            yield None
            return
        with self._environment.read() as txn:
            yield txn


def _is_after(report: BatchReport, failure: FailureReport) -> bool:
    """Whether a batch was done after a failure; compares numbers too, since both may fall into one millisecond."""
    return report.ended_at > failure.at or 0 < failure.batch <= report.plan.number


def _number(kind: bytes, number: int) -> bytes:
    return kind + number.to_bytes(8)


def _decoded(data: bytes | None, kind: type[T]) -> T | None:
    return None if data is None else decode_msgpack(data, kind)
