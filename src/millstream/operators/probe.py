"""Measure the records and the time of a batch, step by step.

A probe wraps the steps of a stage. It costs about as much as a cheap step, so only few batches have one; the others
are wired without it, at no cost.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from millstream.plan.node import Node

T = TypeVar("T")

_DECAY = 0.9
_SAMPLES = 5
_MAX_TEXT = 200
_NEGLIGIBLE = 1e-6


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """A record on an edge, as text that may be truncated."""

    key: str
    value: str
    timestamp: int


class Measured(msgspec.Struct, kw_only=True):
    """The results of a probe: records on each edge, ``source>target``, and each step's own time in seconds."""

    records_in: float = 0
    edges: dict[str, float] = {}
    seconds: dict[str, float] = {}
    samples: dict[str, list[Sample]] = {}
    """The last records on each edge, the newest last."""

    def followed_by(self, later: Measured) -> Measured:
        """Return the sums with later results; older results decay.

        >>> Measured(records_in=10, edges={"a>b": 4}).followed_by(Measured(records_in=6, edges={"a>b": 6})).edges
        {'a>b': 9.6}
        """
        edges = _decayed_sum(self.edges, later.edges)
        return Measured(
            records_in=_DECAY * self.records_in + later.records_in,
            edges=edges,
            seconds=_decayed_sum(self.seconds, later.seconds),
            samples={name: last for name in edges if (last := later.samples.get(name) or self.samples.get(name))},
        )


def _decayed_sum(before: dict[str, float], later: dict[str, float]) -> dict[str, float]:
    decayed = {name: _DECAY * value for name, value in before.items() if name in later or value > _NEGLIGIBLE}
    return decayed | {name: decayed.get(name, 0.0) + value for name, value in later.items()}


class Probe:
    """Counts the records between the steps of one task during one batch, and measures the time of each step."""

    def __init__(self) -> None:
        self._records: dict[str, int] = {}
        self._latest: dict[str, deque[tuple[Any, ...]]] = {}
        self._seconds: dict[str, float] = {}
        self._called_seconds = 0.0
        """Seconds spent in steps that the current step has called."""

    def edge(self, source: Node, reader: Node, process: Callable[..., None]) -> Callable[..., None]:
        """Return ``process``, which ``reader`` calls for records from ``source``, counted and timed."""
        records, name = self._records, f"{source.name}>{reader.name}"
        records.setdefault(name, 0)
        latest = self._latest.setdefault(name, deque(maxlen=_SAMPLES))
        timed = self.timed(reader, process)

        def counted(*record: Any) -> None:
            records[name] += 1
            latest.append(record)
            timed(*record)

        return counted

    def timed(self, node: Node, function: Callable[..., T]) -> Callable[..., T]:
        """Return ``function``, timed for ``node`` without the time of the steps that it calls."""
        seconds, name, clock = self._seconds, node.name or "", time.perf_counter
        seconds.setdefault(name, 0.0)

        def measured(*arguments: Any) -> T:
            before, self._called_seconds = self._called_seconds, 0.0
            began = clock()
            try:
                return function(*arguments)
            finally:
                duration = clock() - began
                seconds[name] += duration - self._called_seconds
                self._called_seconds = before + duration

        return measured

    def result(self, records_in: int) -> Measured:
        """Return the results for a batch with this number of records."""
        samples = {name: [_sample(record) for record in latest] for name, latest in self._latest.items() if latest}
        return Measured(records_in=records_in, edges=dict(self._records), seconds=dict(self._seconds), samples=samples)


def _sample(record: tuple[Any, ...]) -> Sample:
    """Return a sample of (key, value, timestamp) of a stream or (key, new, old, timestamp) of a table."""
    timestamp = record[-1] if isinstance(record[-1], int) else -1
    return Sample(_text(record[0]), _text(record[1]), timestamp)


def _text(value: Any) -> str:
    try:
        text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=repr).decode()
    except Exception:  # a value can be any object
        text = f"a {type(value).__name__}"
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"
