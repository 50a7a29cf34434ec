"""What operators see of the task that runs them."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any, Protocol, TypeAlias

from millstream.errors import DefinitionError
from millstream.foundation.blocks import Column, binary_column
from millstream.foundation.object_codec import decode_key, encode_key
from millstream.functions import Context
from millstream.operators.probe import Probe
from millstream.plan.node import Node
from millstream.plan.topology import Plan
from millstream.records import Headers, Record, Windowed
from millstream.serdes import Serde
from millstream.state.buffer import WaitingBuffer
from millstream.state.keyvalue import KeyValueStore
from millstream.state.members import MemberStore
from millstream.state.timed import TimedStore
from millstream.state.timers import Timers
from millstream.state.versioned import VersionedStore

Process: TypeAlias = Callable[..., None]
"""Streams call it with (key, value, timestamp), tables with (key, new value, old value, timestamp)."""

Step: TypeAlias = Callable[[Any, Any, Any], Any]
"""(key, old value or None, value) → new value, None to delete the row."""


class RecordContext(Context, Protocol):
    """The context as operators see it."""

    row: int
    """The place of the record at hand in its chunk."""
    stream_time: int
    has_headers: bool
    """False if no record of the chunk at hand has headers, so that nobody needs to ask for them."""

    def carry(self, headers: Headers | None) -> tuple[Headers | None, bool]:
        """Have what is passed on carry other headers than the record at hand; returns what ``restore`` takes."""

    def restore(self, carried: tuple[Headers | None, bool]) -> None:
        """Go back to the headers before ``carry``."""

    def record(self, key: Any, value: Any, timestamp: int) -> Record:
        """Return key, value and timestamp as a record that comes from where the one at hand does."""

    def step_aside(self, now: int) -> Any:
        """Let no record be at hand, as while a timer is called at ``now``; returns what ``step_back`` takes."""

    def step_back(self, aside: Any) -> None:
        """Go back to the record before ``step_aside``."""


class Columns:
    """Encoded records on their way to a topic, column by column; the topic takes records up to ``most_bytes``."""

    __slots__ = ("headers", "keys", "most_bytes", "needs_key", "packed", "timestamps", "values")

    def __init__(self, most_bytes: int = sys.maxsize, *, needs_key: bool = False) -> None:
        self.most_bytes = most_bytes
        self.needs_key = needs_key
        self.keys: list[bytes | None] = []
        self.packed: list[Column] = []
        """The values of the first records, where they came as columns."""
        self.values: list[bytes | None] = []
        """Those of the records behind them."""
        self.timestamps: list[int] = []
        self.headers: dict[int, Headers] = {}

    def __len__(self) -> int:
        return len(self.timestamps)

    def extend(self, keys: list[bytes | None], values: list[bytes | None] | Column, timestamps: list[int]) -> None:
        """Add records without headers."""
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

    def note_headers(self, headers: Headers) -> None:
        """Attach headers to the record added last."""
        if headers:
            self.headers[len(self.timestamps) - 1] = headers


class EdgeColumns(Columns):
    """Encoded records on their way to another stage; each key is encoded once, and records name it by number."""

    __slots__ = ("_numbers", "codes", "routes")

    def __init__(self) -> None:
        super().__init__()
        self.codes: list[int] = []
        self.routes: list[bytes] = []
        """What decides the partition of each key in ``keys``: its bytes as they would stand in a topic."""
        self._numbers: KeyNumbers | None = None

    def numbers(self, route_of: Callable[[Any], bytes]) -> KeyNumbers:
        """Return the number of each key."""
        if self._numbers is None:
            self._numbers = KeyNumbers(self, route_of)
        return self._numbers


class KeyNumbers(dict[Any, int]):
    """The number of each key of an edge, by its handle: ``numbers[handle]`` gives a new key the next one."""

    def __init__(self, columns: EdgeColumns, route_of: Callable[[Any], bytes]) -> None:
        self._columns = columns
        self._route_of = route_of

    def __missing__(self, handle: Any) -> int:
        columns = self._columns
        name = handle if type(handle) is bytes else encode_key(handle)
        key = decode_key(name)
        number = len(columns.keys)
        if key is None:
            columns.keys.append(None)
            columns.routes.append(b"")
        else:
            columns.routes.append(self._route_of(key))
            columns.keys.append(name)
        self[handle] = number
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
    def goes_on(self) -> bool:
        """Whether the app goes on after an error of user code."""

    @property
    def probe(self) -> Probe | None:
        """What measures the steps of this batch, if it is one of those that are measured."""

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
        """Return the store that ``node`` owns, or the one of its stores that has the name ``part``."""

    def timed_store(
        self,
        node: Node,
        codec: Serde,
        layout: struct.Struct,
        retention: int,
        *,
        indexed: bool = False,
        exact: bool = False,
        only_in_reach: bool = False,
        part: str = "",
    ) -> TimedStore:
        """Return the store of entries by key and time that ``node`` owns, or the one with the name ``part``.

        ``exact`` says that entries are asked for by key and exact time; for the rest see ``TimedStore``.
        """

    def versioned_store(self, node: Node, codec: Serde) -> VersionedStore:
        """Return the store of a table with history that ``node`` owns."""

    def buffer(self, node: Node, codec: Serde) -> WaitingBuffer:
        """Return where ``node`` lets records wait."""

    def open_versioned_store(self, name: str, codec: Serde, history: int) -> VersionedStore:
        """Return the store of versions with that name in the task."""

    def global_table(self, topic: str) -> KeyValueStore:
        """Return the rows of the global table of a topic, read only and the same for all tasks of the batch."""

    def open_store(self, name: str, codec: Serde) -> KeyValueStore:
        """Return the store with that name in the task."""

    def open_timed_store(
        self, name: str, codec: Serde, layout: struct.Struct, retention: int, *, indexed: bool = False
    ) -> TimedStore:
        """Return the store of entries by key and time with that name in the task."""

    def member_store(self, node: Node, part: str) -> MemberStore:
        """Return the store of members of groups that ``node`` owns under the name ``part``."""

    def next_version(self) -> list[int]:
        """Return a number, as a list, that is larger than all that this task has given out before, in all batches."""

    def to_topic(self, topic: str) -> Columns:
        """Return where records for a topic are collected."""

    def to_edge(self, edge: Node) -> EdgeColumns:
        """Return where records for another stage are collected."""

    def on_flush(self, node: Node, flush: Callable[[], None], *, last: bool = False) -> None:
        """Have ``flush`` called when all records of the batch have been processed, and again if time then moves on.

        With ``last`` it is called once, when nothing more can come.
        """

    def on_time(self, node: Node, move_on: Callable[[int], None]) -> None:
        """Have ``move_on`` called with the time that has come when the inputs of the task are idle.

        It is not called for nodes behind such that hold records back: what comes out of those would be late.
        """

    def dropped(self, node: Node, reason: str) -> None:
        """Count a record that ends here without an effect."""

    def to_late(self, node: Node, topic: str, windows: Sequence[Windowed] = ()) -> None:
        """Send the record at hand, as it arrived, to a topic for late ones; ``windows`` are those that it missed."""

    def failed(self, node: Node, error: Exception, key: Any) -> None:
        """Deal with an error of user code by the app's policy; raises if that is to fail."""


@singledispatch
def operator(node: Node, _forward: Any, _runtime: Runtime) -> Any:
    """Return what a node does with a record: a ``Process`` or a ``Port``, one for each of its inputs if they differ."""
    raise DefinitionError(f"there is no operator for {node.verb!r} ({node.name!r})")
