"""The work of session windows: a record joins all sessions of its key that are not more than the gap away."""

from __future__ import annotations

from typing import Any

from millstream.operators.runtime import Process
from millstream.operators.windows import WindowAggregator, windowed
from millstream.state.entries import At, Bucket, Entry
from millstream.windows import FOREVER, SessionWindows


@windowed.register(SessionWindows)
def _sessions(windows: SessionWindows, aggregation: WindowAggregator) -> Process:
    """Entries stand at (end, start); results have the end of the session as their timestamp.

    Updates carry no headers, as in Kafka Streams: a session is made of many records. Final results have those of the
    record that closes them.
    """
    store, clock, gap, grace = aggregation.store, aggregation.clock, windows.gap, windows.grace
    bucket_of, retention = store.bucket, store.retention
    put, added, begin = aggregation.put, aggregation.added, aggregation.begin
    skips_nulls, context = aggregation.skips_nulls, aggregation.context
    aggregation.on_time((lambda time: _emit(aggregation, time - grace - gap)) if aggregation.final else None)

    def process(key: Any, value: Any, timestamp: int) -> None:
        if key is None or (value is None and skips_nulls):
            return aggregation.drop("null_key" if key is None else "null_value")
        if timestamp > clock.time:
            clock.time = timestamp
        close = clock.time - grace - gap
        bucket = bucket_of(key, timestamp - gap)
        near = bucket.between(max(timestamp - gap, store.observed - retention + 1), FOREVER)
        if near:
            near = [one for one in near if one.at[1] <= timestamp + gap]
        at = _place(near, timestamp)
        if at[0] < close:
            aggregation.late(key, at)
            aggregation.tell_late()
        else:
            try:
                new = added(key, _merged(aggregation, key, near) if near else begin(), value)
            except Exception as error:
                return aggregation.fail(error, key)
            carried = context.carry(()) if context.has_headers else None
            put(_grown(aggregation, bucket, near, at) if near else bucket.entry(at), new, at[0])
            if carried is not None:
                context.restore(carried)
        if aggregation.final:
            _emit(aggregation, close)
        return None

    return process


def _place(near: list[Entry], timestamp: int) -> At:
    """Return end and start of the session that a record and those near it make together."""
    start = end = timestamp
    for session in near:
        its_end, its_start = session.at
        if its_end > end:
            end = its_end
        if its_start < start:
            start = its_start
    return end, start


def _grown(aggregation: WindowAggregator, bucket: Bucket, near: list[Entry], at: At) -> Entry:
    """Return the entry of the session that others become, and delete those."""
    first = near[0]
    if len(near) == 1 and aggregation.held_back and not first.stored and first.before is None:
        bucket.move(first, at)  # nobody has seen it yet
        aggregation.store.mark(first)
        return first
    if at[0] != at[1]:  # else it is the one that is there, and no longer than before
        for session in near:
            aggregation.put(session, None, session.at[0], session.value)
            if not session.stored:
                bucket.drop(session)
    return bucket.entry(at)


def _merged(aggregation: WindowAggregator, key: Any, near: list[Entry]) -> Any:
    assert aggregation.merge is not None
    aggregate = aggregation.begin()
    for session in near:
        if aggregate is None and aggregation.initial is None:
            aggregate = session.value
        else:
            aggregate = aggregation.merge(key, aggregate, session.value)
    return aggregate


def _emit(aggregation: WindowAggregator, close: int) -> None:
    """Pass on sessions that have closed, by end, start and key, unless their segment is gone."""
    store = aggregation.store
    if close <= store.emitted:
        return
    for entry in store.due(max(0, store.emitted), close - 1):
        if store.is_kept(entry.at[0]):
            aggregation.pass_on(entry)
    store.emitted = close
