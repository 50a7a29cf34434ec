"""How long records took from their producer to the end of their batch, measured on the records themselves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from millstream.batch.report import BatchReport
from millstream.broker import Broker
from millstream.errors import BrokerUnavailableError, MillstreamError
from millstream.serve.place import Place

_MOST_KNOWN = 3000
_SAMPLED = 4  # partitions of a batch
_LONGEST_MS = 3_600_000  # beyond it a timestamp is event time, not the time of sending


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds from the timestamp of a batch's first record, which waited longest, to the end of the batch."""

    p50: float
    p99: float


class Latencies:
    """Measures the batches of all apps, each once: what its records waited does not change any more."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._known: OrderedDict[tuple[str, int, int], float | None] = OrderedDict()

    def of(self, app: str, batches: Sequence[BatchReport]) -> Latency | None:
        """Return the latency of the last batches, or None if timestamps do not tell when records were sent."""
        waits = sorted(wait for batch in batches if (wait := self._wait(app, batch)) is not None)
        if not waits:
            return None
        return Latency(p50=waits[len(waits) // 2], p99=waits[min(len(waits) - 1, int(len(waits) * 0.99))])

    def _wait(self, app: str, batch: BatchReport) -> float | None:
        name = app, batch.plan.number, batch.ended_at
        if name not in self._known:
            found: list[float | None] = self._place.asked(lambda broker: [_wait(broker, batch)], [])
            if not found:  # the broker does not answer now
                return None
            self._known[name] = found[0]
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return self._known.get(name)


def _wait(broker: Broker, batch: BatchReport) -> float | None:
    """Return what the first record of a batch waited; a few records are read for it."""
    waits: list[int] = []
    for one in batch.plan.ranges[:_SAMPLED]:
        try:
            first = broker.read(one.topic, one.partition, one.start, min(one.stop, one.start + 1))
            waits += [batch.ended_at - int(chunk.block.column(2)[0].as_py()) for chunk in first]
        except BrokerUnavailableError:
            raise
        except MillstreamError:  # the records are gone
            continue
    known = [wait for wait in waits if 0 <= wait < _LONGEST_MS]
    return max(known) if known and len(known) == len(waits) else None
