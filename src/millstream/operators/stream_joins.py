"""Join two streams.

Both sides store their records as long as a partner may still arrive, and share one clock. A record is joined with the
partners that have arrived already. In left and outer joins a record without partner waits until its window has closed:
it is then forwarded alone, by a record that advances the time so far that no partner can arrive any longer. An eager
join forwards it alone at once.

Two numbers are stored as clocks of the left store: ``clock(0)`` is the join's stream time, ``clock(1)`` the tracker of
``_Shared``, which is the timestamp of a record or FOREVER.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from millstream.foundation.object_codec import OBJECT_CODEC, value_codec
from millstream.operators.aggregation import with_key
from millstream.operators.columns import JoinSide, Port, record_by_record
from millstream.operators.join_columns import LEFT as _LEFT
from millstream.operators.join_columns import RIGHT as _RIGHT
from millstream.operators.join_columns import JoinColumns
from millstream.operators.runtime import Process, Runtime, Step, operator
from millstream.plan.joins import StreamStreamJoin
from millstream.plan.node import Node
from millstream.serdes import Serde
from millstream.state.appended import AppendedStore
from millstream.state.entries import Entry
from millstream.state.timed import TimedStore
from millstream.windows import FOREVER

_TIME_AND_NUMBER = struct.Struct(">QQ")


@operator.register(StreamStreamJoin)
def _join(node: StreamStreamJoin, forward: Process, runtime: Runtime) -> tuple[Process | Port, Process | Port]:
    joiner, within = with_key(node.joiner), node.within

    def mirrored(key: Any, mine: Any, other: Any) -> Any:
        return joiner(key, other, mine)

    left, right = _side_store(node, node.left, "left", runtime), _side_store(node, node.right, "right", runtime)
    shared = _Shared(node, left, forward, runtime)
    first = _Side(shared, _LEFT, left, right, joiner, pads=node.kind != "inner")
    second = _Side(shared, _RIGHT, right, left, mirrored, pads=node.kind == "outer")
    shared.sides = {_LEFT: first, _RIGHT: second}
    runtime.on_time_advance(node, shared.advance_time)
    processes = {
        _LEFT: first.processing(within.before, within.after),
        _RIGHT: second.processing(within.after, within.before),
    }
    if node.kind != "inner":
        return processes[_LEFT], processes[_RIGHT]
    columns = JoinColumns(node, left, right, shared.clock, runtime)

    def port(side: int) -> Port:
        singly = record_by_record(processes[side], runtime.context)
        join_side = JoinSide(side, lambda forward: columns.processing(forward, processes))
        return Port(processes[side], lambda _forward: singly, join_side=join_side)

    return port(_LEFT), port(_RIGHT)


def _side_store(node: StreamStreamJoin, source: Node, part: str, runtime: Runtime) -> AppendedStore:
    codec, kept = value_codec(runtime.plan.declared[source].value), node.within.retention
    store = runtime.timed_store(node, codec, _TIME_AND_NUMBER, kept, skip_expired=True, appended=True, part=part)
    assert isinstance(store, AppendedStore)
    return store


class _Shared:
    """What both sides of a join share: stream time, and the records that have no partner yet.

    ``tracker`` decides when to search for records whose window has closed. It does what Kafka Streams does, so that the
    same record triggers the result: it is not their earliest timestamp, but the last one that a search has visited.
    """

    def __init__(self, node: StreamStreamJoin, store: TimedStore, forward: Process, runtime: Runtime) -> None:
        self.node = node
        self.forward = forward
        self.runtime = runtime
        self.sides: dict[int, _Side] = {}
        self.clock = store.clock(0)
        self.tracker = store.clock(1)
        if self.tracker.time < 0:
            self.tracker.time = FOREVER
        self.unmatched: TimedStore | None = None
        if node.kind != "inner" and not node.within.eager:
            self.unmatched = runtime.timed_store(
                node, OBJECT_CODEC, _TIME_AND_NUMBER, FOREVER, indexed=True, part="unmatched"
            )
        within = node.within
        self._waits = {_LEFT: within.after + within.grace, _RIGHT: within.before + within.grace}

    def advance_time(self, time: int) -> None:
        """Advance time without records; forward the unmatched records whose window has closed."""
        self.clock.time = max(self.clock.time, time)
        if self.unmatched is not None:
            self.forward_unmatched(-FOREVER)

    def remember(self, side: int, key: Any, timestamp: int, data: bytes) -> None:
        """Store a record that has no partner yet."""
        assert self.unmatched is not None
        entry = self.unmatched.entry(key, (timestamp, side))
        entry.value = [data] if entry.value is None else [*entry.value, data]
        entry.timestamp = timestamp
        self.unmatched.mark(entry)
        self.tracker.time = min(self.tracker.time, timestamp)

    def forget(self, side: int, key: Any, timestamp: int) -> None:
        """Delete the stored records of a key and a time: they have a partner now."""
        assert self.unmatched is not None
        entry = self.unmatched.bucket(key, timestamp).find((timestamp, side))
        if entry is not None and entry.value is not None:
            entry.value = None
            self.unmatched.mark(entry)

    def forward_unmatched(self, reach: int) -> None:
        """Forward alone the records that can no longer have a partner; ``reach`` is how far ahead the record joins."""
        now, waits, store = self.clock.time, self._waits, self.unmatched
        assert store is not None
        if self.tracker.time >= now - reach - self.node.within.grace:
            return
        self.tracker.time = FOREVER
        due: list[Entry] = []
        open_sides: set[int] = set()
        for entry in store.walk():
            timestamp, side = entry.position
            self.tracker.time = timestamp
            if timestamp + waits[side] < now:
                due.append(entry)
                continue
            open_sides.add(side)
            if len(open_sides) == 2:
                break
            if self.node.kind == "left":  # all that follow are open too, only the last one matters
                self.tracker.time = store.latest_time()
                break
        for entry in due:
            self.sides[entry.position[1]].forward_alone(entry)
            entry.value = None
            store.mark(entry)


class _Side:
    """One side of a join: its records, and how they are joined with those of the other side."""

    def __init__(
        self, shared: _Shared, side: int, mine: TimedStore, other: TimedStore, join: Step, *, pads: bool
    ) -> None:
        self._shared = shared
        self._side = side
        self._mine = mine
        self._other = other
        self._join = join
        self._pads = pads
        self._codec: Serde = mine.codec

    def processing(self, back: int, ahead: int) -> Process:
        """Return what processes a record; its partners are up to ``back`` earlier and ``ahead`` later."""
        shared, other, join_all, pads = self._shared, self._other, self._join_all, self._pads
        runtime, clock, node = shared.runtime, shared.clock, shared.node
        mine, pads_some, keep = self._mine, shared.unmatched is not None, _appender(self._mine)
        is_eager = node.within.eager
        partners_of, retention = other.bucket, other.retention

        def process(key: Any, value: Any, timestamp: int) -> None:
            if timestamp > clock.time:
                clock.time = timestamp
            if value is None or (key is None and not pads):
                return runtime.drop(node, "null_value" if value is None else "null_key")
            if key is None:
                return self._forward_unjoined(key, value, timestamp)
            if pads_some and timestamp == clock.time:
                shared.forward_unmatched(ahead)
            until = max(0, timestamp + ahead)
            low = max(timestamp - back, other.observed - retention + 1)
            partners = partners_of(key, low).between(low, until)
            if partners:
                join_all(key, value, timestamp, partners)
            elif pads and (is_eager or until < clock.time):
                self._forward_unjoined(key, value, timestamp)
            elif pads:
                shared.remember(self._side, key, timestamp, self._codec.encode(value))
            if timestamp > mine.observed - mine.retention or self._keep_late(timestamp):
                keep(key, value, timestamp)
            return None

        return process

    def _keep_late(self, timestamp: int) -> bool:
        """Report a record that no later partner can find; return whether it is stored anyway, as in Kafka Streams."""
        shared = self._shared
        if shared.node.late_to is not None:
            shared.runtime.send_late(shared.node, shared.node.late_to)
        if self._mine.is_kept(timestamp):
            return True
        shared.runtime.drop(shared.node, "late")
        return False

    def _join_all(self, key: Any, value: Any, timestamp: int, partners: list[Entry]) -> None:
        shared, join = self._shared, self._join
        for partner in partners:
            partner_timestamp = partner.position[0]
            if shared.unmatched is not None:
                shared.forget(1 - self._side, key, partner_timestamp)
            try:
                joined = join(key, value, partner.value)
            except Exception as error:  # the record is not joined with its other partners either
                return shared.runtime.handle_error(shared.node, error, key, timestamp)
            shared.forward(key, joined, max(partner_timestamp, timestamp))
        return None

    def forward_alone(self, entry: Entry) -> None:
        """Forward the records of a key and a time, each without partner."""
        for data in entry.value:
            self._forward_unjoined(entry.key, self._codec.decode(data), entry.position[0])

    def _forward_unjoined(self, key: Any, value: Any, timestamp: int) -> None:
        try:
            joined = self._join(key, value, None)
        except Exception as error:
            return self._shared.runtime.handle_error(self._shared.node, error, key)
        return self._shared.forward(key, joined, timestamp)


def _appender(store: TimedStore) -> Callable[[Any, Any, int], None]:
    """Return what stores a record after those of the same key and time."""
    bucket_of, mark = store.bucket, store.mark

    def keep(key: Any, value: Any, timestamp: int) -> None:
        bucket = bucket_of(key, timestamp)
        times, number = bucket.times, 0
        if times and times[-1] >= timestamp:
            same = bisect_right(times, timestamp) - 1
            number = bucket.entries[same].position[1] + 1 if times[same] == timestamp else 0
        entry = bucket.entry((timestamp, number))
        entry.value, entry.timestamp = value, timestamp
        mark(entry)

    return keep
