"""Measure where the records and the time of a batch go, step by step.

A probe stands between the steps of a stage. It costs about as much as a cheap step, so only few batches are built with
one; all others are wired without, and pay nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from millstream.plan.node import Node

T = TypeVar("T")

_KEPT = 0.9
_SAMPLES = 5
_LONGEST_TEXT = 200
_FORGOTTEN = 1e-6


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """A record on an edge, as text that may be cut."""

    key: str
    value: str
    timestamp: int


class Measured(msgspec.Struct, kw_only=True):
    """What a probe has seen: records on each edge, ``source>target``, and the seconds each step took for itself."""

    records_in: float = 0
    edges: dict[str, float] = {}
    seconds: dict[str, float] = {}
    samples: dict[str, list[Sample]] = {}
    """The last records on each edge, the newest last."""

    def followed_by(self, later: Measured) -> Measured:
        """Return the sums with what was seen later; what is long ago counts less and less.

        >>> Measured(records_in=10, edges={"a>b": 4}).followed_by(Measured(records_in=6, edges={"a>b": 6})).edges
        {'a>b': 9.6}
        """
        edges = _faded(self.edges, later.edges)
        return Measured(
            records_in=_KEPT * self.records_in + later.records_in,
            edges=edges,
            seconds=_faded(self.seconds, later.seconds),
            samples={name: seen for name in edges if (seen := later.samples.get(name) or self.samples.get(name))},
        )


def _faded(before: dict[str, float], later: dict[str, float]) -> dict[str, float]:
    known = {name: _KEPT * value for name, value in before.items() if name in later or value > _FORGOTTEN}
    return known | {name: known.get(name, 0.0) + value for name, value in later.items()}


class Probe:
    """Counts and times what passes between the steps of one task during one batch."""

    def __init__(self) -> None:
        self._records: dict[str, int] = {}
        self._latest: dict[str, deque[tuple[Any, ...]]] = {}
        self._seconds: dict[str, float] = {}
        self._within = 0.0
        """Seconds spent in steps that the one at hand has called."""

    def edge(self, source: Node, reader: Node, process: Callable[..., None]) -> Callable[..., None]:
        """Return ``process``, which ``reader`` does with what comes from ``source``, counted and timed."""
        records, name = self._records, f"{source.name}>{reader.name}"
        records.setdefault(name, 0)
        latest = self._latest.setdefault(name, deque(maxlen=_SAMPLES))
        timed = self.timed(reader, process)

        def counted(*record: Any) -> None:
            records[name] += 1
            latest.append(record)
            timed(*record)

        return counted

    def timed(self, node: Node, work: Callable[..., T]) -> Callable[..., T]:
        """Return ``work``, whose time counts for ``node``, without that of steps which it calls."""
        seconds, name, clock = self._seconds, node.name or "", time.perf_counter
        seconds.setdefault(name, 0.0)

        def measured(*arguments: Any) -> T:
            before, self._within = self._within, 0.0
            began = clock()
            try:
                return work(*arguments)
            finally:
                passed = clock() - began
                seconds[name] += passed - self._within
                self._within = before + passed

        return measured

    def result(self, records_in: int) -> Measured:
        """Return what was seen of a batch with so many records."""
        samples = {name: [_sample(record) for record in latest] for name, latest in self._latest.items() if latest}
        return Measured(records_in=records_in, edges=dict(self._records), seconds=dict(self._seconds), samples=samples)


def _sample(record: tuple[Any, ...]) -> Sample:
    """Return what streams pass on as (key, value, timestamp), tables as (key, new, old, timestamp)."""
    timestamp = record[-1] if isinstance(record[-1], int) else -1
    return Sample(_text(record[0]), _text(record[1]), timestamp)


def _text(value: Any) -> str:
    try:
        text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=repr).decode()
    except Exception:  # a value may be anything
        text = f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
