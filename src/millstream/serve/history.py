"""An app over time: the stored minutes of its journal as evenly spaced points, for charts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec

from millstream.batch.history import Minute
from millstream.batch.journal import Journal
from millstream.batch.latency import LatencyHistogram
from millstream.batch.report import Totals

_MINUTE_MS = 60_000
_MAX_POINTS = 120
_MIN_SECONDS = 5  # of the current minute: less would be too noisy


class HistoryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The batches that ended within an interval of ``seconds`` from ``start``, milliseconds since 1970.

    ``lag`` and the latencies, in milliseconds, are null without a batch; ``state_bytes`` until a task has stored state.
    """

    start: int
    seconds: int
    batches: int
    records_in: int
    records_out: int
    late: int
    dead_letters: int
    busy_seconds: float
    lag: int | None
    latency_p50: float | None
    latency_p99: float | None
    state_bytes: int | None

    @property
    def rate(self) -> float:
        """Records read per second."""
        return self.records_in / self.seconds


def history_of(journal: Journal, minutes: int, now: int | None = None) -> list[HistoryPoint]:
    """Return the last ``minutes`` of an app since its first batch, oldest first; at most 121 points.

    Intervals without batches are included.
    """
    now = time.time_ns() // 1_000_000 if now is None else now
    step_ms = -(-minutes // _MAX_POINTS) * _MINUTE_MS
    end = now // _MINUTE_MS * _MINUTE_MS
    totals = journal.history.totals()
    start = end - minutes * _MINUTE_MS // step_ms * step_ms
    start += max(0, totals.since - start) // step_ms * step_ms
    stored = {minute.start: minute for minute in journal.history.minutes(start)}
    state = _initial_state(totals, stored.values())
    points: list[HistoryPoint] = []
    for first in range(start, now - _MIN_SECONDS * 1000, step_ms):
        group = [stored[at] for at in range(first, first + step_ms, _MINUTE_MS) if at in stored]
        for minute in group:
            state.update(minute.totals.state_bytes)
        seconds = min(step_ms, now - first) // 1000
        points.append(_point(first, seconds, group, sum(state.values()) if state else None))
    return points


def _initial_state(totals: Totals, minutes: Iterable[Minute]) -> dict[str, int]:
    """Return the size of each task's state before the first minute.

    A task without a batch since then has its current size; of others, the first known size is the best estimate.
    """
    state = dict(totals.state_bytes)
    for minute in reversed(list(minutes)):
        state.update(minute.totals.state_bytes)
    return state


def _point(start: int, seconds: int, minutes: Sequence[Minute], state_bytes: int | None) -> HistoryPoint:
    totals = [minute.totals for minute in minutes]
    latency = _merged(total.latency for total in totals)
    phases = [total.phases for total in totals]
    return HistoryPoint(
        start=start,
        seconds=seconds,
        batches=sum(total.batches for total in totals),
        records_in=sum(total.records_in for total in totals),
        records_out=sum(total.records_out for total in totals),
        late=sum(total.late for total in totals),
        dead_letters=sum(total.dead_letters for total in totals),
        busy_seconds=sum(phase.plan + phase.run + phase.publish + phase.done for phase in phases),
        lag=totals[-1].lag if totals else None,
        latency_p50=latency.quantile(0.5) if latency.counts else None,
        latency_p99=latency.quantile(0.99) if latency.counts else None,
        state_bytes=state_bytes,
    )


def _merged(histograms: Iterable[LatencyHistogram]) -> LatencyHistogram:
    merged = LatencyHistogram()
    for histogram in histograms:
        merged = merged.merged(histogram)
    return merged
