"""The runtime interface of operators: what they use of the task that runs them."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any, Protocol, TypeAlias

from millstream.errors import DefinitionError
from millstream.foundation.blocks import Column, binary_column
from millstream.foundation.key_columns import encode_keys, encode_routes
from millstream.foundation.object_codec import decode_key, encode_key
from millstream.foundation.value_errors import ValueErrors
from millstream.functions import Context
from millstream.operators.probe import Probe
from millstream.plan.node import Node
from millstream.plan.topology import Plan
from millstream.records import Headers, Record, Windowed
from millstream.serdes import Serde
from millstream.state.buffer import RecordBuffer
from millstream.state.keyvalue import KeyValueStore
from millstream.state.members import MemberStore
from millstream.state.timed import TimedStore
from millstream.state.timers import Timers
from millstream.state.versioned import VersionedStore

Process: TypeAlias = Callable[..., None]
"""Streams call it with (key, value, timestamp), tables with (key, new value, old value, timestamp)."""

Step: TypeAlias = Callable[[Any, Any, Any], Any]
"""(key, old value or None, value) → new value, None to delete the row."""


Target: TypeAlias = bytes | list[int]
"""What decides the partition of a record instead of its key: other bytes, or the partitions themselves."""


class RecordContext(Context, Protocol):
    """The context as operators see it."""

    row: int
    """The row of the current record in its chunk; loops over records use it as their loop variable."""
    stream_time: int
    errors: ValueErrors
    """Collects errors in expressions that make a value null."""
    has_headers: bool
    """False if no record of the current chunk has headers, so operators need not read them."""

    def override_headers(self, headers: Headers | None) -> tuple[Headers | None, bool]:
        """Forward records with these headers instead of the current record's; return what ``restore_headers`` takes."""

    def restore_headers(self, saved: tuple[Headers | None, bool]) -> None:
        """Undo ``override_headers``."""

    def record(self, key: Any, value: Any, timestamp: int) -> Record:
        """Return a record with this key, value and timestamp, and the topic, offset and headers of the current one."""

    def suspend(self, now: int) -> Any:
        """Have no current record while a timer runs at ``now``; return what ``resume`` takes."""

    def resume(self, suspended: Any) -> None:
        """Return to the record before ``suspend``."""

    def bookmark(self) -> Any:
        """Return what ``return_to`` takes to make the current record, its headers and its time current again."""

    def return_to(self, bookmark: Any) -> None:
        """Continue as if an earlier record of the batch were the current one."""

    def is_still_at(self, bookmark: Any) -> bool:
        """Whether no other record has become the current one; timers and the end of the batch are not records."""


class Columns:
    """Encoded records for a topic, as columns; the topic accepts records of up to ``max_record_bytes``."""

    __slots__ = (
        *("headers", "keys", "max_record_bytes", "needs_key", "packed", "partitions", "targets", "timestamps"),
        *("key_routes", "values"),
    )

    def __init__(self, max_record_bytes: int = sys.maxsize, *, needs_key: bool = False, partitions: int = 1) -> None:
        self.max_record_bytes = max_record_bytes
        self.needs_key = needs_key
        self.partitions = partitions
        self.keys: list[bytes | None] = []
        self.packed: list[Column] = []
        """The values of the first records, if they were added as columns."""
        self.values: list[bytes | None] = []
        """The values of the records after them."""
        self.timestamps: list[int] = []
        self.headers: dict[int, Headers] = {}
        self.key_routes: dict[int, bytes] = {}
        """By row, the bytes that decide the partition, where they are not the key."""
        self.targets: dict[int, int] = {}
        """By row, the partition that a partitioner chose."""

    def __len__(self) -> int:
        return len(self.timestamps)

    def extend(
        self,
        keys: list[bytes | None],
        values: list[bytes | None] | Column,
        timestamps: list[int],
        routes: list[bytes | None] | None = None,
    ) -> None:
        """Add records without headers; ``routes`` decide their partitions if the keys do not."""
        if routes is not None:
            first = len(self)
            self.key_routes.update((first + row, route) for row, route in enumerate(routes) if route is not None)
        self.keys.extend(keys)
        self.timestamps.extend(timestamps)
        if isinstance(values, list):
            self.values.extend(values)
        else:
            self.packed = [*self.all_packed, values]
            self.values = []

    @property
    def all_packed(self) -> list[Column]:
        """All values as columns."""
        return [*self.packed, binary_column(self.values)] if self.values else self.packed

    def set_target(self, target: Target) -> None:
        """Set the partitions of the record that was added last, or the bytes that decide its partition."""
        row = len(self.timestamps) - 1
        if isinstance(target, bytes):
            self.key_routes[row] = target
            return
        for copy, partition in enumerate(target):
            if copy:
                self._repeat(row)
            self.targets[row + copy] = partition

    def _repeat(self, row: int) -> None:
        """Add the record that was added last again."""
        self.keys.append(self.keys[row])
        self.values.append(self.values[-1])
        self.timestamps.append(self.timestamps[row])
        self.set_headers(self.headers.get(row, ()))

    def set_headers(self, headers: Headers) -> None:
        """Set the headers of the record that was added last."""
        if headers:
            self.headers[len(self.timestamps) - 1] = headers


class EdgeColumns(Columns):
    """Encoded records for another stage; each distinct key is encoded once, and records refer to it by number.

    If only the presence of values matters, ``values`` stays empty, and ``null_rows`` are the records without one.
    """

    __slots__ = ("_numbers", "codes", "null_rows", "routes")

    def __init__(self) -> None:
        super().__init__()
        self.codes: list[int] = []
        self.null_rows: list[int] = []
        self.routes: list[bytes] = []
        """The bytes that decide the partition of each key in ``keys``: the key as a topic would store it."""
        self._numbers: KeyNumbers | None = None

    def numbers(self, route_of: Callable[[Any], bytes]) -> KeyNumbers:
        """Return the number of each key."""
        if self._numbers is None:
            self._numbers = KeyNumbers(self, route_of)
        return self._numbers


_HASHED_AS_IS = frozenset({str, int})


class KeyNumbers(dict[Any, int]):
    """The number of each key of an edge, by its handle: ``numbers[handle]`` assigns the next number to a new key."""

    def __init__(self, columns: EdgeColumns, route_of: Callable[[Any], bytes]) -> None:
        self._columns = columns
        self._route_of = route_of

    def of_all(self, handles: list[Any]) -> list[int]:
        """Return the numbers of many keys; those of new keys are assigned together, which is faster."""
        codes = list(map(self.get, handles))
        if None not in codes:
            return codes  # type: ignore[return-value]  # mypy does not see what the condition says
        new = [handle for handle in dict.fromkeys(handles) if handle not in self]
        if new and _HASHED_AS_IS.issuperset(map(type, new)):
            columns, names, routes = self._columns, encode_keys(new), encode_routes(new, self._route_of)
            self.update(zip(new, range(len(columns.keys), len(columns.keys) + len(new)), strict=True))
            columns.keys.extend(names)
            columns.routes.extend(routes)
        return list(map(self.__getitem__, handles))

    def __missing__(self, handle: Any) -> int:
        columns = self._columns
        is_encoded = type(handle) is bytes
        key, name = (decode_key(handle), handle) if is_encoded else (handle, encode_key(handle))
        route = b"" if key is None else self._route_of(key)
        number = self[handle] = len(columns.keys)
        columns.keys.append(None if key is None else name)
        columns.routes.append(route)
        return number


class Runtime(Protocol):
    """One task during one batch."""

    @property
    def plan(self) -> Plan: ...
    @property
    def context(self) -> RecordContext: ...
    @property
    def caching(self) -> bool: ...
    @property
    def continues_on_error(self) -> bool:
        """Whether the app continues after an error in user code."""

    @property
    def probe(self) -> Probe | None:
        """Measures the steps of this batch; None if the batch is not measured."""

    @property
    def app(self) -> str: ...
    @property
    def task_name(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def wall_time(self) -> int: ...
    @property
    def timers(self) -> Timers: ...
    def store(self, node: Node, codec: Serde, part: str = "") -> KeyValueStore:
        """Return the store of ``node``, or its store with the name ``part``."""

    def timed_store(
        self,
        node: Node,
        codec: Serde,
        layout: struct.Struct,
        retention: int,
        *,
        indexed: bool = False,
        exact: bool = False,
        appended: bool = False,
        skip_expired: bool = False,
        part: str = "",
    ) -> TimedStore:
        """Return the store of entries by key and time of ``node``, or the one with the name ``part``.

        With ``exact`` entries are read by key and exact time only; with ``appended`` it is an ``AppendedStore``. For
        the other options see ``TimedStore``.
        """

    def versioned_store(self, node: Node, codec: Serde) -> VersionedStore:
        """Return the store of ``node``, which keeps a table with history."""

    def buffer(self, node: Node, codec: Serde) -> RecordBuffer:
        """Return the buffer in which records of ``node`` wait."""

    def open_versioned_store(self, name: str, codec: Serde, history: int) -> VersionedStore:
        """Return the versioned store with this name in the task."""

    def global_table(self, topic: str) -> KeyValueStore:
        """Return the rows of the global table of a topic, read only and the same for all tasks of the batch."""

    def open_store(self, name: str, codec: Serde) -> KeyValueStore:
        """Return the store with this name in the task."""

    def open_timed_store(
        self, name: str, codec: Serde, layout: struct.Struct, retention: int, *, indexed: bool = False
    ) -> TimedStore:
        """Return the store of entries by key and time with this name in the task."""

    def member_store(self, node: Node, part: str) -> MemberStore:
        """Return the store of group members of ``node`` with the name ``part``."""

    def next_version(self) -> list[int]:
        """Return a version, as a list, that is greater than all that this task has returned before, in all batches."""

    def to_topic(self, topic: str) -> Columns:
        """Return the columns that collect records for a topic."""

    def to_edge(self, edge: Node) -> EdgeColumns:
        """Return the columns that collect records for another stage."""

    def on_flush(self, node: Node, flush: Callable[[], None], *, last: bool = False) -> None:
        """Call ``flush`` when all records of the batch have been processed, and again if time is then advanced.

        With ``last`` it is called once, when no more records can follow.
        """

    def on_time_advance(self, node: Node, advance_time: Callable[[int], None]) -> None:
        """Call ``advance_time`` with the new stream time when it advances because the task's inputs are idle.

        It is not called for nodes downstream of nodes that hold records back: these records would then be late.
        """

    def drop(self, node: Node, reason: str) -> None:
        """Count a record that is dropped without effect."""

    def send_late(self, node: Node, topic: str, windows: Sequence[Windowed] = ()) -> None:
        """Send the current record, as it arrived, to a topic for late records; ``windows`` are those that it missed."""

    def handle_error(self, node: Node, error: Exception, key: Any, timestamp: int | None = None) -> None:
        """Apply the app's error policy to an error in user code; raises if the policy is to fail.

        ``timestamp`` is that of the record at the node, which need not be that of the record that was read.
        """


@singledispatch
def operator(node: Node, _forward: Any, _runtime: Runtime) -> Any:
    """Return what a node does with a record: a ``Process`` or a ``Port``; a tuple with one per input if they differ."""
    raise DefinitionError(f"there is no operator for {node.verb!r} ({node.name!r})")
