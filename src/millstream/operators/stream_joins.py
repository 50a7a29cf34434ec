"""The work of joining two streams.

Both sides keep their records for as long as a partner may come, and share one clock. A record meets the partners that
are already there. What finds none may have to wait until its window has closed: it is then passed on alone, when a
record that brings the latest time shows that nobody can come any more.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from millstream.foundation.object_codec import OBJECT_CODEC, value_codec
from millstream.operators.aggregation import with_key
from millstream.operators.runtime import Process, Runtime, Step, operator
from millstream.plan.joins import StreamStreamJoin
from millstream.plan.node import Node
from millstream.serdes import Serde
from millstream.state.entries import Entry
from millstream.state.timed import TimedStore
from millstream.windows import FOREVER

_TIME_AND_NUMBER = struct.Struct(">QQ")
_RIGHT, _LEFT = 0, 1  # of unmatched records of the same time those of the right stream go first


@operator.register(StreamStreamJoin)
def _join(node: StreamStreamJoin, forward: Process, runtime: Runtime) -> tuple[Process, Process]:
    joiner, within = with_key(node.joiner), node.within

    def mirrored(key: Any, mine: Any, other: Any) -> Any:
        return joiner(key, other, mine)

    left, right = _side_store(node, node.left, "left", runtime), _side_store(node, node.right, "right", runtime)
    shared = _Shared(node, left, forward, runtime)
    first = _Side(shared, _LEFT, left, right, joiner, pads=node.kind != "inner")
    second = _Side(shared, _RIGHT, right, left, mirrored, pads=node.kind == "outer")
    shared.sides = {_LEFT: first, _RIGHT: second}
    runtime.on_time(node, shared.move_on)
    return (
        first.processing(within.before, within.after),
        second.processing(within.after, within.before),
    )


def _side_store(node: StreamStreamJoin, source: Node, part: str, runtime: Runtime) -> TimedStore:
    codec, kept = value_codec(runtime.plan.declared[source].value), node.within.retention
    return runtime.timed_store(node, codec, _TIME_AND_NUMBER, kept, only_in_reach=True, part=part)


class _Shared:
    """What both sides of a join share: time, and the records that have found no partner yet.

    ``tracker`` says when it may be worth looking for records whose time is up. It follows what Kafka Streams does, so
    that results come with the same record: it is not the earliest of them, but the last one that a look has visited.
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
        if node.kind != "inner":
            self.unmatched = runtime.timed_store(
                node, OBJECT_CODEC, _TIME_AND_NUMBER, FOREVER, indexed=True, part="unmatched"
            )
        within = node.within
        self._waits = {_LEFT: within.after + within.grace, _RIGHT: within.before + within.grace}

    def move_on(self, time: int) -> None:
        """Let time go on without records: whoever has waited long enough goes on alone."""
        self.clock.time = max(self.clock.time, time)
        if self.unmatched is not None:
            self.pass_on_unmatched(-FOREVER)

    def remember(self, side: int, key: Any, timestamp: int, data: bytes) -> None:
        """Keep a record that has found no partner."""
        assert self.unmatched is not None
        entry = self.unmatched.entry(key, (timestamp, side))
        entry.value = [data] if entry.value is None else [*entry.value, data]
        entry.timestamp = timestamp
        self.unmatched.mark(entry)
        self.tracker.time = min(self.tracker.time, timestamp)

    def forget(self, side: int, key: Any, timestamp: int) -> None:
        """Take out what was remembered of a key and a time: it has found a partner."""
        assert self.unmatched is not None
        entry = self.unmatched.bucket(key, timestamp).find((timestamp, side))
        if entry is not None and entry.value is not None:
            entry.value = None
            self.unmatched.mark(entry)

    def pass_on_unmatched(self, reach: int) -> None:
        """Pass on alone what can find no partner any more; ``reach`` is how far ahead the arriving side looks."""
        now, waits, store = self.clock.time, self._waits, self.unmatched
        assert store is not None
        if self.tracker.time >= now - reach - self.node.within.grace:
            return
        self.tracker.time = FOREVER
        due: list[Entry] = []
        open_sides: set[int] = set()
        for entry in store.walk():
            timestamp, side = entry.at
            self.tracker.time = timestamp
            if timestamp + waits[side] < now:
                due.append(entry)
                continue
            open_sides.add(side)
            if len(open_sides) == 2:
                break
            if self.node.kind == "left":  # all that follow are open too: only the last of them matters
                self.tracker.time = store.last_time()
                break
        for entry in due:
            self.sides[entry.at[1]].pass_on_alone(entry)
            entry.value = None
            store.mark(entry)


class _Side:
    """One side of a join: its records, and how they meet those of the other side."""

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
        """Return what is done with a record; it meets those up to ``back`` earlier and ``ahead`` later."""
        shared, other, meet, pads = self._shared, self._other, self._meet, self._pads
        runtime, clock, node = shared.runtime, shared.clock, shared.node
        mine, pads_some, keep = self._mine, shared.unmatched is not None, _keeping(self._mine)
        partners_of, retention = other.bucket, other.retention

        def process(key: Any, value: Any, timestamp: int) -> None:
            if timestamp > clock.time:
                clock.time = timestamp
            if value is None or (key is None and not pads):
                return runtime.dropped(node, "null_value" if value is None else "null_key")
            if key is None:
                return self._pass_on(key, value, timestamp)
            if pads_some and timestamp == clock.time:
                shared.pass_on_unmatched(ahead)
            until = max(0, timestamp + ahead)
            low = max(timestamp - back, other.observed - retention + 1)
            partners = partners_of(key, low).between(low, until)
            if partners:
                meet(key, value, timestamp, partners)
            elif pads and until < clock.time:
                self._pass_on(key, value, timestamp)
            elif pads:
                shared.remember(self._side, key, timestamp, self._codec.encode(value))
            if timestamp > mine.observed - mine.retention or self._is_still_kept(timestamp):
                keep(key, value, timestamp)
            return None

        return process

    def _is_still_kept(self, timestamp: int) -> bool:
        """Say of a record that no later partner can find whether it is stored all the same, as in Kafka Streams."""
        shared = self._shared
        if shared.node.late_to is not None:
            shared.runtime.to_late(shared.node, shared.node.late_to)
        if self._mine.is_kept(timestamp):
            return True
        shared.runtime.dropped(shared.node, "late")
        return False

    def _meet(self, key: Any, value: Any, timestamp: int, partners: list[Entry]) -> None:
        shared, join = self._shared, self._join
        for partner in partners:
            met = partner.at[0]
            if shared.unmatched is not None:
                shared.forget(1 - self._side, key, met)
            try:
                joined = join(key, value, partner.value)
            except Exception as error:  # it costs the record its other partners too
                return shared.runtime.failed(shared.node, error, key)
            shared.forward(key, joined, max(met, timestamp))
        return None

    def pass_on_alone(self, entry: Entry) -> None:
        """Pass on the records of a key and a time, each without partner."""
        for data in entry.value:
            self._pass_on(entry.key, self._codec.decode(data), entry.at[0])

    def _pass_on(self, key: Any, value: Any, timestamp: int) -> None:
        try:
            joined = self._join(key, value, None)
        except Exception as error:
            return self._shared.runtime.failed(self._shared.node, error, key)
        return self._shared.forward(key, joined, timestamp)


def _keeping(store: TimedStore) -> Callable[[Any, Any, int], None]:
    """Return what stores a record behind those of the same key and time."""

    bucket_of, mark = store.bucket, store.mark

    def keep(key: Any, value: Any, timestamp: int) -> None:
        bucket = bucket_of(key, timestamp)
        times, number = bucket.times, 0
        if times and times[-1] >= timestamp:
            same = bisect_right(times, timestamp) - 1
            number = bucket.entries[same].at[1] + 1 if times[same] == timestamp else 0
        entry = bucket.entry((timestamp, number))
        entry.value, entry.timestamp = value, timestamp
        mark(entry)

    return keep
