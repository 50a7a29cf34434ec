"""Session windows: a record joins all sessions of its key that are at most the gap away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.operators.collected import RecordCollector
from millstream.operators.columns import Port, ProcessColumns, record_by_record
from millstream.operators.session_counts import SessionCounter
from millstream.operators.windows import WindowAggregator, windowed
from millstream.state.entries import Bucket, Entry, Position
from millstream.windows import FOREVER, SessionWindows


@windowed.register(SessionWindows)
def _session_windows(windows: SessionWindows, aggregation: WindowAggregator) -> Port:
    """Entries are stored at (end, start); the timestamp of a result is the end of the session.

    Updates have no headers, as in Kafka Streams: a session consists of many records. Final results have the headers of
    the record that closes them.
    """
    clock, gap, grace = aggregation.clock, windows.gap, windows.grace
    skips_nulls, add = aggregation.skips_nulls, _adding(windows, aggregation)
    aggregation.on_time_advance((lambda time: _emit(aggregation, time - grace - gap)) if aggregation.final else None)

    def process(key: Any, value: Any, timestamp: int) -> None:
        if key is None or (value is None and skips_nulls):
            return aggregation.drop("null_key" if key is None else "null_value")
        if timestamp > clock.time:
            clock.time = timestamp
        close = clock.time - grace - gap
        if add(key, value, timestamp, close) and aggregation.final:
            _emit(aggregation, close)
        return None

    def make_process_columns(forward: ProcessColumns | None) -> ProcessColumns:
        singly = record_by_record(process, aggregation.context)
        is_plain = aggregation.node.ready is None and aggregation.added_several is not None
        if forward is None or not aggregation.is_deferred or aggregation.final or not is_plain:
            return singly
        SessionCounter(windows, aggregation, add)
        return RecordCollector(aggregation, windows.grace + windows.gap).process_columns(singly)

    return Port(process, make_process_columns)


def _adding(windows: SessionWindows, aggregation: WindowAggregator) -> Callable[..., bool]:
    """Return what adds a record to its session, or counts it as late; it returns False after an error."""
    store, gap, context = aggregation.store, windows.gap, aggregation.context
    bucket_of, retention = store.bucket, store.retention
    put, added, begin = aggregation.put, aggregation.added, aggregation.begin

    def add(key: Any, value: Any, timestamp: int, close: int = -FOREVER) -> bool:
        bucket = bucket_of(key, timestamp - gap)
        sessions = bucket.between(max(timestamp - gap, store.observed - retention + 1), FOREVER)
        if sessions:
            sessions = [session for session in sessions if session.position[1] <= timestamp + gap]
        position = _merged_bounds(sessions, timestamp)
        if position[0] < close:
            aggregation.count_late(key, position)
            aggregation.send_late()
            return True
        try:
            new = added(key, _merged_aggregate(aggregation, key, sessions) if sessions else begin(), value)
        except Exception as error:
            aggregation.handle_error(error, key, timestamp)
            return False
        saved = context.override_headers(()) if context.has_headers else None
        put(
            _merged_entry(aggregation, bucket, sessions, position) if sessions else bucket.entry(position),
            new,
            position[0],
        )
        if saved is not None:
            context.restore_headers(saved)
        return True

    return add


def _merged_bounds(sessions: list[Entry], timestamp: int) -> Position:
    """Return end and start of the session that a record and the sessions near it form together."""
    start = end = timestamp
    for session in sessions:
        session_end, session_start = session.position
        if session_end > end:
            end = session_end
        if session_start < start:
            start = session_start
    return end, start


def _merged_entry(aggregation: WindowAggregator, bucket: Bucket, sessions: list[Entry], position: Position) -> Entry:
    """Return the entry of the merged session, and delete the sessions that it replaces."""
    first = sessions[0]
    if len(sessions) == 1 and aggregation.is_deferred and not first.stored and first.before is None:
        bucket.move(first, position)  # it was not forwarded yet, so no tombstone is needed
        aggregation.store.mark(first)
        return first
    if position[0] != position[1]:  # otherwise it is the existing session, with the same bounds
        for session in sessions:
            aggregation.put(session, None, session.position[0], session.value)
            if not session.stored:
                bucket.remove(session)
    return bucket.entry(position)


def _merged_aggregate(aggregation: WindowAggregator, key: Any, sessions: list[Entry]) -> Any:
    assert aggregation.merge is not None
    aggregate = aggregation.begin()
    for session in sessions:
        if aggregate is None and aggregation.initial is None:
            aggregate = session.value
        else:
            aggregate = aggregation.merge(key, aggregate, session.value)
    return aggregate


def _emit(aggregation: WindowAggregator, close: int) -> None:
    """Forward sessions that have closed, by end, start and key, unless their segment has expired."""
    store = aggregation.store
    if close <= store.emitted:
        return
    for entry in store.due(max(0, store.emitted), close - 1):
        if store.is_kept(entry.position[0]):
            aggregation.forward_final(entry)
    store.emitted = close
