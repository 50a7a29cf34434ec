"""Suppress: hold back changes of a table.

The buffer has one entry per row, ordered by (time, key); the time is the end of its window, or the timestamp of its
first change. Later changes of the row replace the entry. The operator's own stream time decides when it is released.

``buffer.clock(0)`` is that time; the counters 1 and 2 are the number and the size of the rows in the buffer, if it has
bounds. tests/task/test_suppress_counts.py compares them with the rows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from millstream.errors import DefinitionError, SuppressionFullError
from millstream.foundation.object_codec import encode_key, value_codec
from millstream.operators.lookup import Lookup, computed, lookup
from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.suppress import Suppress
from millstream.records import Headers, Windowed
from millstream.serdes import Serde
from millstream.state.entries import Entry
from millstream.state.timed import TimedStore
from millstream.suppression import UntilTimeLimit
from millstream.windows import FOREVER

_TIME = struct.Struct(">Q")
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[bytes | None, bytes | None, bytes | None, Headers]).decode


class _Held(NamedTuple):
    """The last change of a row; ``prior`` is the value that was forwarded before the first change held back."""

    new: Any
    old: Any
    prior: Any
    headers: Headers


class _HeldCodec:
    """Encodes suppressed changes with the codec of the table's values."""

    def __init__(self, codec: Serde) -> None:
        self._encode, self._decode = codec.encode, codec.decode
        self.name = f"held:{codec.name}"

    def encode(self, held: _Held) -> bytes:
        parts = (None if part is None else self._encode(part) for part in held[:3])
        return _pack((*parts, held.headers))

    def decode(self, data: bytes) -> _Held:
        stored = _unpack(data)
        new, old, prior = (None if part is None else self._decode(part) for part in stored[:3])
        return _Held(new, old, prior, stored[3])


def _buffer(node: Suppress, runtime: Runtime) -> TimedStore:
    codec = _HeldCodec(value_codec(runtime.plan.declared[node].value))
    return runtime.timed_store(node, codec, _TIME, FOREVER, indexed=True, part="buffer")


def _end_of(node: Suppress, key: Any) -> int:
    if not isinstance(key, Windowed):
        raise DefinitionError(
            f"{node.name!r} waits for windows to close, but {key!r:.60} is not a window: the table was grouped again",
            hint="suppress before group_by, or use until_time_limit()",
            node=node.name,
        )
    return key.end


def _find(buffer: TimedStore, key: Any) -> Entry | None:
    """Return the entry of a row in the buffer; it has at most one."""
    for entry in buffer.bucket(key, 0).entries:
        if entry.value is not None:
            return entry
    return None


@operator.register(Suppress)
def _suppress(node: Suppress, forward: Process, runtime: Runtime) -> Process:
    buffer, delay, context = _buffer(node, runtime), node.delay, runtime.context
    clock = buffer.clock(0)
    count = _row_counter(node, buffer)
    release = _releaser(node, buffer, count, forward, runtime)
    enforce = _bounds(node, buffer, release)
    by_first_change = isinstance(node.until, UntilTimeLimit)

    def advance_time(time: int) -> None:
        clock.time = max(clock.time, time)
        for due in buffer.due(0, clock.time - delay):
            release(due)

    runtime.on_time_advance(node, advance_time)

    def process(key: Any, new: Any, old: Any, timestamp: int) -> None:
        if timestamp > clock.time:
            clock.time = timestamp
        entry, prior = _find(buffer, key), old
        if entry is None:
            entry = buffer.entry(key, (timestamp if by_first_change else _end_of(node, key),))
        else:
            prior = entry.value.prior
        count(entry, -1)
        entry.value = _Held(new, old, prior, context.headers if context.has_headers else ())
        entry.timestamp = timestamp
        buffer.mark(entry)
        count(entry, +1)
        for due in buffer.due(0, clock.time - delay):
            release(due)
        if enforce is not None:
            enforce(key)

    return process


def _releaser(
    node: Suppress, buffer: TimedStore, count: Callable[[Entry, int], None], forward: Process, runtime: Runtime
) -> Callable[[Entry], None]:
    """Return what forwards a row with its own headers; a window that closes as a tombstone is not forwarded."""
    tombstones, context = isinstance(node.until, UntilTimeLimit), runtime.context

    def release(entry: Entry) -> None:
        held: _Held = entry.value
        if held.new is not None or tombstones:
            saved = context.override_headers(held.headers)
            forward(entry.key, held.new, held.old, entry.timestamp)
            context.restore_headers(saved)
        count(entry, -1)
        entry.value = None
        buffer.mark(entry)

    return release


def _row_counter(node: Suppress, buffer: TimedStore) -> Callable[[Entry, int], None]:
    """Return what updates the number of rows in the buffer and, if it is bounded, their size.

    Rows are counted without bounds too, so that bounds can be added later. A size that was not counted so far is 0.
    """
    rows, size = buffer.counter(1), buffer.counter(2)  # _bounds reads them
    counts_bytes = node.until.max_bytes is not None

    def count(entry: Entry, sign: int) -> None:
        if entry.value is not None:
            rows.value += sign
            if counts_bytes:
                size.value += sign * (len(encode_key(entry.key)) + len(buffer.codec.encode(entry.value)))

    if not counts_bytes:
        size.value = 0
    if rows.value == 0 or (counts_bytes and size.value == 0):
        rows.value = size.value = 0
        for entry in buffer.walk():
            count(entry, +1)
    return count


def _bounds(node: Suppress, buffer: TimedStore, release: Callable[[Entry], None]) -> Callable[[Any], None] | None:
    """Return what handles a full buffer, None if it has no bounds."""
    until = node.until
    if until.max_records is None and until.max_bytes is None:
        return None
    max_records = FOREVER if until.max_records is None else until.max_records
    max_bytes = FOREVER if until.max_bytes is None else until.max_bytes
    rows, size = buffer.counter(1), buffer.counter(2)  # _row_counter updates them

    def enforce(key: Any) -> None:
        while rows.value > max_records or size.value > max_bytes:
            if until.when_full == "shut_down":
                raise SuppressionFullError(
                    f"the buffer of {node.name!r} is full at row {key!r:.60} ({rows.value} rows)",
                    hint='raise max_records or max_bytes, or use when_full="emit_early"',
                    node=node.name,
                )
            release(next(buffer.walk()))

    return enforce


def forwarded_before(node: Suppress, runtime: Runtime) -> Callable[[Any], Any]:
    """Return what finds the value of a row that was forwarded before the one that is being released.

    A released change has the old value of the last change held back, which readers may never have seen.
    """
    buffer = _buffer(node, runtime)

    def find(key: Any) -> Any:
        entry = _find(buffer, key)
        return None if entry is None else entry.value.prior

    return find


@computed.register(Suppress)
def _lookup(node: Suppress, runtime: Runtime) -> Lookup:
    """Look up the row that was forwarded last, not the change that is held back."""
    buffer, source = _buffer(node, runtime), lookup(node.source, runtime)

    def look(key: Any) -> tuple[Any, int]:
        entry = _find(buffer, key)
        return source(key) if entry is None else (entry.value.prior, -1)

    return look
