"""How records and time flow through the steps of an app, reckoned from the batches that were measured."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.batch.report import StageTotals
from millstream.operators.probe import Measured


class Flow:
    """Rates of edges and costs of steps: what measured batches show, applied to all records of their stages."""

    def __init__(
        self, steps: Mapping[str, Measured], entering: Mapping[str, float], totals: Mapping[str, StageTotals]
    ) -> None:
        self._rates: dict[str, float] = {}
        self._out: dict[str, float] = {}
        self._in: dict[str, float] = {}
        self._records: dict[str, float] = {}
        self._seconds: dict[str, float] = {}
        self._costs: dict[str, float] = {}
        for stage, seen in steps.items():
            if seen.records_in >= 1:
                self._take(seen, entering.get(stage, 0.0), totals.get(stage, StageTotals()).records_in)

    def _take(self, seen: Measured, entering: float, records: int) -> None:
        for edge, count in seen.edges.items():
            source, _, target = edge.partition(">")
            rate = entering * count / seen.records_in
            self._rates[edge] = rate
            self._out[source] = max(self._out.get(source, 0.0), rate)  # every reader gets every record
            self._in[target] = self._in.get(target, 0.0) + rate
            self._records[target] = self._records.get(target, 0.0) + count
        for node, seconds in seen.seconds.items():
            self._seconds[node] = self._seconds.get(node, 0.0) + seconds
            self._costs[node] = self._costs.get(node, 0.0) + seconds * records / seen.records_in

    def edge(self, source: str, target: str) -> float | None:
        """Return the records per second from one step to another.

        A branch is no step of its own: what goes into it is what comes out.
        """
        found = self._rates.get(f"{source}>{target}")
        return self._out.get(target) if found is None and target not in self._in else found

    def into(self, node: str) -> float | None:
        """Return the records per second that enter a step; of a source, those that leave it."""
        return self._in.get(node, self._out.get(node))

    def micros(self, node: str) -> float | None:
        """Return the microseconds that a step takes for a record."""
        records = self._records.get(node, 0.0)
        return self._seconds.get(node, 0.0) * 1e6 / records if records >= 1 else None

    def share(self, node: str) -> float | None:
        """Return the part of the time of all steps, from 0 to 1, that one of them takes."""
        whole = sum(self._costs.values())
        return self._costs[node] / whole if node in self._costs and whole > 0 else None

    @property
    def slowest(self) -> str | None:
        """The step that takes most of the time, if there is more than one."""
        return max(self._costs, key=self._costs.__getitem__) if len(self._costs) > 1 else None
