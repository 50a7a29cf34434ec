"""What all answers of one server share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from millstream.serve.latency import Latencies
from millstream.serve.place import Place
from millstream.serve.progress import ProgressWatch
from millstream.serve.rates import Rates
from millstream.serve.watch import Watch


@dataclass(frozen=True)
class Site:
    """The place that is looked at, and what has been seen of it lately."""

    place: Place
    rates: Rates
    watch: Watch

    @cached_property
    def progress(self) -> ProgressWatch:
        """What tells all open pages that something has moved on."""
        return ProgressWatch(self.place, self.rates)

    @cached_property
    def latencies(self) -> Latencies:
        """What is known of the latency of batches."""
        return Latencies(self.place)
