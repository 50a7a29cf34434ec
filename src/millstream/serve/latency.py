"""How long records took from their producer to the end of their batch, measured on the records themselves."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from millstream.batch.report import BatchReport
from millstream.broker import Broker
from millstream.errors import MillstreamError

_SAMPLED = 4  # partitions of a batch
_LONGEST_MS = 3_600_000  # beyond it a timestamp is event time, not the time of sending


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds from the timestamp of a batch's first record, which waited longest, to the end of the batch."""

    p50: float
    p99: float


def latency_of(broker: Broker, batches: Sequence[BatchReport]) -> Latency | None:
    """Return the latency of the last batches, or None if timestamps do not tell when records were sent."""
    waits = sorted(wait for batch in batches if (wait := _wait(broker, batch)) is not None)
    if not waits:
        return None
    return Latency(p50=waits[len(waits) // 2], p99=waits[min(len(waits) - 1, int(len(waits) * 0.99))])


def _wait(broker: Broker, batch: BatchReport) -> float | None:
    """Return what the first record of a batch waited; a few records are read for it."""
    waits: list[int] = []
    for one in batch.plan.ranges[:_SAMPLED]:
        try:
            first = broker.read(one.topic, one.partition, one.start, min(one.stop, one.start + 1))
            waits += [batch.ended_at - int(chunk.block.column(2)[0].as_py()) for chunk in first]
        except MillstreamError:  # the records are gone
            continue
    known = [wait for wait in waits if 0 <= wait < _LONGEST_MS]
    return max(known) if known and len(known) == len(waits) else None
