"""How records and time flow through the steps of an app, computed from the sampled batches."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.batch.report import StageTotals
from millstream.operators.probe import Measured


class MeasuredFlow:
    """Rates of edges and costs of steps: measured in sampled batches, scaled to all records of their stages."""

    def __init__(
        self, steps: Mapping[str, Measured], entering: Mapping[str, float], totals: Mapping[str, StageTotals]
    ) -> None:
        self._rates: dict[str, float] = {}
        self._out: dict[str, float] = {}
        self._in: dict[str, float] = {}
        self._records: dict[str, float] = {}
        self._seconds: dict[str, float] = {}
        self._costs: dict[str, float] = {}
        for stage, sample in steps.items():
            if sample.records_in >= 1:
                self._add(sample, entering.get(stage, 0.0), totals.get(stage, StageTotals()).records_in)

    def _add(self, sample: Measured, entering: float, records: int) -> None:
        for edge, count in sample.edges.items():
            source, _, target = edge.partition(">")
            rate = entering * count / sample.records_in
            self._rates[edge] = rate
            self._out[source] = max(self._out.get(source, 0.0), rate)  # every successor gets every record
            self._in[target] = self._in.get(target, 0.0) + rate
            self._records[target] = self._records.get(target, 0.0) + count
        for node, seconds in sample.seconds.items():
            self._seconds[node] = self._seconds.get(node, 0.0) + seconds
            self._costs[node] = self._costs.get(node, 0.0) + seconds * records / sample.records_in

    def edge(self, source: str, target: str) -> float | None:
        """Return the records per second from one step to another.

        A branch is not a step by itself: its input rate is its output rate.
        """
        rate = self._rates.get(f"{source}>{target}")
        return self._out.get(target) if rate is None and target not in self._in else rate

    def into(self, node: str) -> float | None:
        """Return the records per second that enter a step; for a source, those that leave it."""
        return self._in.get(node, self._out.get(node))

    def micros(self, node: str) -> float | None:
        """Return the microseconds that a step needs per record."""
        records = self._records.get(node, 0.0)
        return self._seconds.get(node, 0.0) * 1e6 / records if records >= 1 else None

    def share(self, node: str) -> float | None:
        """Return the share of a step in the time of all steps, from 0 to 1."""
        total = sum(self._costs.values())
        return self._costs[node] / total if node in self._costs and total > 0 else None

    @property
    def slowest(self) -> str | None:
        """The step that needs the most time, if there is more than one."""
        return max(self._costs, key=self._costs.__getitem__) if len(self._costs) > 1 else None
