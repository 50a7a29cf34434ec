"""Merge the inputs of a task by time.

The input whose next record has the smallest timestamp goes first, on a tie the one declared first, and each input keeps
its own order, as in a Kafka Streams task. So the result of a batch depends on its ranges alone.

A record that is older than one before it in its input follows that one directly, since all other inputs wait for a
later time. So the order is that of the latest timestamps up to each record, and many records can be sorted at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from millstream.foundation.blocks import take_items
from millstream.foundation.coded import CodedRecords, join_coded
from millstream.records import Headers
from millstream.task.inputs import BlockFeed, DecodedChunk

ChunkSlice: TypeAlias = tuple[int, DecodedChunk, int, int]
"""Number of the input, a chunk of it, and the rows ``start`` to ``stop`` that come next."""

_NEVER = 2**63 - 1
MIN_SLICE = 8
"""Shorter slices take longer than choosing what to do with each record."""


class Interleaved:
    """Records of several inputs in the order in which they are processed; has the interface of a chunk."""

    def __init__(self, parts: list[ChunkSlice], times: Any, order: Any, part_numbers: Any) -> None:
        self.stream_times = times[order]
        """For each record the latest timestamp up to it, as an array."""
        self._parts = parts
        self._part_numbers = part_numbers
        self._positions = order
        self.has_headers = any(chunk.has_headers for _, chunk, _, _ in parts)

    def __len__(self) -> int:
        return len(self.stream_times)

    @cached_property
    def _order(self) -> list[int]:
        """For each record its index in the concatenated parts."""
        order: list[int] = self._positions.tolist()
        return order

    @cached_property
    def keys(self) -> list[Any]:
        return self._reordered([chunk.keys[start:stop] for _, chunk, start, stop in self._parts])

    @cached_property
    def values(self) -> list[Any]:
        return self._reordered([chunk.values[start:stop] for _, chunk, start, stop in self._parts])

    @cached_property
    def timestamps(self) -> list[int]:
        return self._reordered([chunk.timestamps[start:stop] for _, chunk, start, stop in self._parts])

    def _reordered(self, columns: list[list[Any]]) -> list[Any]:
        return take_items(list(chain.from_iterable(columns)), self._order)

    def coded(self, start: int, stop: int) -> CodedRecords | None:
        """Return the rows ``start`` to ``stop`` as arrays, if only their keys and times matter."""
        parts = [chunk.coded(first, last) for _, chunk, first, last in self._parts]
        coded = [part for part in parts if part is not None]
        if len(coded) < len(parts):
            return None
        positions, joined = self._positions[start:stop], join_coded(coded)
        return CodedRecords(joined.keys, joined.codes[positions], joined.times[positions])

    @property
    def input_numbers(self) -> Any:
        """The input that each record comes from, as an array."""
        return np.array([number for number, *_ in self._parts])[self._part_numbers]

    def locate(self, row: int) -> tuple[DecodedChunk, int]:
        """Return the chunk of a record and its row there."""
        part_number, index = int(self._part_numbers[row]), self._order[row]
        for _, _, start, stop in self._parts[:part_number]:
            index -= stop - start
        _, chunk, start, _ = self._parts[part_number]
        return chunk, start + index

    def headers(self, row: int) -> Headers:
        chunk, chunk_row = self.locate(row)
        return chunk.headers(chunk_row)


class _InputCursor:
    """A position in an input: the current chunk and the next row."""

    __slots__ = ("chunk", "feed", "number", "row", "times")

    def __init__(self, number: int, feed: Iterator[DecodedChunk], chunk: DecodedChunk) -> None:
        self.number = number
        self.feed = feed
        self._enter(chunk)

    def _enter(self, chunk: DecodedChunk) -> None:
        self.chunk, self.row, self.times = chunk, 0, chunk.stream_times

    @property
    def is_last_chunk(self) -> bool:
        """Whether it is known that no chunk follows, without reading further."""
        return isinstance(self.feed, BlockFeed) and self.feed.has_ended

    def take(self, limit: int, *, with_ties: bool) -> ChunkSlice:
        """Move on to the first record after a time, and return the records before it."""
        start, stop = self.row, np.searchsorted(self.times, limit, "right" if with_ties else "left")
        self.row = max(start, int(stop))
        return self.number, self.chunk, start, self.row

    def fetch(self) -> bool:
        """Fetch the next chunk if this one is finished; return False at the end of the input."""
        if self.row == len(self.times):
            following = _next(self.feed)
            if following is None:
                return False
            self._enter(following)
        return True


def merged(feeds: list[Iterator[DecodedChunk]], min_slice: int = MIN_SLICE) -> Iterator[ChunkSlice | Interleaved]:
    """Yield the records of several inputs in the order in which a task processes them.

    Slices of at least ``min_slice`` records on average are yielded one after the other, shorter ones interleaved.
    """
    cursors = [
        _InputCursor(number, feed, chunk) for number, feed in enumerate(feeds) if (chunk := _next(feed)) is not None
    ]
    while len(cursors) > 1:
        ends = [_NEVER if cursor.is_last_chunk else int(cursor.times[-1]) for cursor in cursors]
        limit = min(ends)
        # the chunk that ends first; inputs declared later wait for what follows it, if anything can follow
        first = len(cursors) if limit == _NEVER else ends.index(limit)
        parts = [cursor.take(limit, with_ties=index <= first) for index, cursor in enumerate(cursors)]
        yield from _ordered([part for part in parts if part[2] < part[3]], min_slice)
        cursors = [cursor for cursor in cursors if cursor.fetch()]
    for cursor in cursors:
        yield cursor.number, cursor.chunk, cursor.row, len(cursor.times)
        for number, chunk in ((cursor.number, chunk) for chunk in cursor.feed if chunk.timestamps):
            yield number, chunk, 0, len(chunk.timestamps)


def _ordered(parts: list[ChunkSlice], min_slice: int) -> Iterator[ChunkSlice | Interleaved]:
    """Yield the records of some parts in order: as slices if these are long, otherwise interleaved."""
    if len(parts) == 1:
        yield parts[0]
        return
    times = np.concatenate([chunk.stream_times[start:stop] for _, chunk, start, stop in parts])
    order = np.argsort(times, kind="stable")
    part_numbers = np.repeat(np.arange(len(parts)), [stop - start for _, _, start, stop in parts])[order]
    switches = np.flatnonzero(np.diff(part_numbers)) + 1
    if len(order) < min_slice * (len(switches) + 1):
        yield Interleaved(parts, times, order, part_numbers)
        return
    next_rows = [start for _, _, start, _ in parts]
    for begin, end in zip([0, *switches.tolist()], [*switches.tolist(), len(order)], strict=True):
        part_number = int(part_numbers[begin])
        number, chunk, _, _ = parts[part_number]
        start, next_rows[part_number] = next_rows[part_number], next_rows[part_number] + end - begin
        yield number, chunk, start, next_rows[part_number]


def _next(feed: Iterator[DecodedChunk]) -> DecodedChunk | None:
    return next((chunk for chunk in feed if chunk.timestamps), None)
