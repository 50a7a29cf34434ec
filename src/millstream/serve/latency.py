"""Latency from the timestamp of a record to the end of its batch, measured on the records themselves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from millstream.batch.report import BatchReport
from millstream.broker import Broker
from millstream.errors import BrokerUnavailableError, MillstreamError
from millstream.serve.data_directory import DataDirectory

_MAX_CACHED = 3000
_SAMPLED_PARTITIONS = 4  # of a batch
_MAX_LATENCY_MS = 3_600_000  # an older timestamp is event time, not the time of sending


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds from the timestamp of a batch's first record, which waited longest, to the end of the batch."""

    p50: float
    p99: float


class Latencies:
    """Measures each batch of all apps once: the latency of a finished batch no longer changes."""

    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory
        self._cache: OrderedDict[tuple[str, int, int], float | None] = OrderedDict()

    def of(self, app: str, batches: Sequence[BatchReport]) -> Latency | None:
        """Return the latency of the last batches, or None if timestamps are not the times of sending."""
        latencies = sorted(latency for batch in batches if (latency := self._of_batch(app, batch)) is not None)
        if not latencies:
            return None
        last = len(latencies) - 1
        return Latency(p50=latencies[len(latencies) // 2], p99=latencies[min(last, int(len(latencies) * 0.99))])

    def _of_batch(self, app: str, batch: BatchReport) -> float | None:
        name = app, batch.plan.number, batch.ended_at
        if name not in self._cache:
            measured: list[float | None] = self._directory.query_broker(lambda broker: [_measure(broker, batch)], [])
            if not measured:  # the broker is unavailable
                return None
            self._cache[name] = measured[0]
            while len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)
        return self._cache.get(name)


def _measure(broker: Broker, batch: BatchReport) -> float | None:
    """Return the latency of the first record of a batch; this reads one record of a few partitions."""
    latencies: list[int] = []
    for range_ in batch.plan.ranges[:_SAMPLED_PARTITIONS]:
        try:
            first = broker.read(range_.topic, range_.partition, range_.start, min(range_.stop, range_.start + 1))
            latencies += [batch.ended_at - int(chunk.block.column(2)[0].as_py()) for chunk in first]
        except BrokerUnavailableError:
            raise
        except MillstreamError:  # the records were deleted
            continue
    plausible = [latency for latency in latencies if 0 <= latency < _MAX_LATENCY_MS]
    return max(plausible) if plausible and len(plausible) == len(latencies) else None
