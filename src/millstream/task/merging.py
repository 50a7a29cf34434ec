"""The inputs of a task, merged by time.

Of several inputs the one whose next record has the smallest timestamp goes first, on a tie the one declared first, and
each keeps its own order: as a Kafka Streams task does. So the result of a batch depends on its ranges alone.

A record that is older than one before it in its input follows that one at once, since all others wait for a later
time. So the order is that of the latest times reached in each input, which can be sorted for many records at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from millstream.foundation.blocks import take_items
from millstream.records import Headers
from millstream.task.inputs import Decoded

ChunkSlice: TypeAlias = tuple[int, Decoded, int, int]
"""Rows ``start`` to ``stop`` of a chunk of the input with that number come next."""

_LONG = 8
"""Runs of so many records on average are passed on as such, shorter ones as records that take turns."""


class Interleaved:
    """Records of several inputs that take turns, in the order in which they are processed; looks like a chunk."""

    __slots__ = ("_parts", "_places", "_turns", "has_headers", "keys", "reached", "timestamps", "values")

    def __init__(self, parts: list[ChunkSlice], times: Any, order: Any, turns: Any) -> None:
        self.reached = times[order]
        """For each record the latest time up to it, as an array."""
        self._parts = parts
        self._turns = turns
        self._places: list[int] = order.tolist()
        """Where a record stood when the parts stood one after the other."""
        self.keys = self._reordered([chunk.keys[start:stop] for _, chunk, start, stop in parts])
        self.values = self._reordered([chunk.values[start:stop] for _, chunk, start, stop in parts])
        self.timestamps = self._reordered([chunk.timestamps[start:stop] for _, chunk, start, stop in parts])
        self.has_headers = any(chunk.has_headers for _, chunk, _, _ in parts)

    def _reordered(self, columns: list[list[Any]]) -> list[Any]:
        return take_items(list(chain.from_iterable(columns)), self._places)

    @property
    def numbers(self) -> list[int]:
        """The input that each record comes from."""
        found: list[int] = np.array([number for number, *_ in self._parts])[self._turns].tolist()
        return found

    def locate(self, row: int) -> tuple[Decoded, int]:
        """Return the chunk of a record and its row there."""
        turn, place = int(self._turns[row]), self._places[row]
        for _, _, start, stop in self._parts[:turn]:
            place -= stop - start
        _, chunk, start, _ = self._parts[turn]
        return chunk, start + place

    def headers(self, row: int) -> Headers:
        chunk, place = self.locate(row)
        return chunk.headers(place)


class _Head:
    """The next records of an input."""

    __slots__ = ("chunk", "feed", "number", "row", "times")

    def __init__(self, number: int, feed: Iterator[Decoded], chunk: Decoded) -> None:
        self.number = number
        self.feed = feed
        self._enter(chunk)

    def _enter(self, chunk: Decoded) -> None:
        self.chunk, self.row, self.times = chunk, 0, chunk.reached

    def take(self, limit: int, *, with_ties: bool) -> ChunkSlice:
        """Go over to what comes after a time, and return the records before."""
        start, found = self.row, np.searchsorted(self.times, limit, "right" if with_ties else "left")
        self.row = max(start, int(found))
        return self.number, self.chunk, start, self.row

    def goes_on(self) -> bool:
        """Fetch the next chunk if this one is at its end; False if there is none."""
        if self.row == len(self.times):
            following = _next(self.feed)
            if following is None:
                return False
            self._enter(following)
        return True


def merged(feeds: list[Iterator[Decoded]]) -> Iterator[ChunkSlice | Interleaved]:
    """Yield the records of several inputs in the order in which a task processes them."""
    heads = [_Head(number, feed, chunk) for number, feed in enumerate(feeds) if (chunk := _next(feed)) is not None]
    while len(heads) > 1:
        ends = [int(head.times[-1]) for head in heads]
        first = ends.index(min(ends))  # the chunk that ends first; who is declared later waits for what follows it
        parts = [head.take(ends[first], with_ties=place <= first) for place, head in enumerate(heads)]
        yield from _ordered([part for part in parts if part[2] < part[3]])
        heads = [head for head in heads if head.goes_on()]
    for head in heads:
        yield head.number, head.chunk, head.row, len(head.times)
        for number, chunk in ((head.number, chunk) for chunk in head.feed if chunk.timestamps):
            yield number, chunk, 0, len(chunk.timestamps)


def _ordered(parts: list[ChunkSlice]) -> Iterator[ChunkSlice | Interleaved]:
    """Yield the records of some parts in order: as runs if these are long, else all together."""
    if len(parts) == 1:
        yield parts[0]
        return
    times = np.concatenate([chunk.reached[start:stop] for _, chunk, start, stop in parts])
    order = np.argsort(times, kind="stable")
    turns = np.repeat(np.arange(len(parts)), [stop - start for _, _, start, stop in parts])[order]
    switches = np.flatnonzero(np.diff(turns)) + 1
    if len(order) < _LONG * (len(switches) + 1):
        yield Interleaved(parts, times, order, turns)
        return
    places = [start for _, _, start, _ in parts]
    for begin, end in zip([0, *switches.tolist()], [*switches.tolist(), len(order)], strict=True):
        turn = int(turns[begin])
        number, chunk, _, _ = parts[turn]
        start, places[turn] = places[turn], places[turn] + end - begin
        yield number, chunk, start, places[turn]


def _next(feed: Iterator[Decoded]) -> Decoded | None:
    return next((chunk for chunk in feed if chunk.timestamps), None)
