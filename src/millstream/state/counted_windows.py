"""Counts of windows, column by column: how many records belong to each window of each key.

Records whose timestamps belong to the same windows form a cell with their key. Records are counted by cell first, and
cells are then added to each of their windows, so a record that belongs to many windows is counted once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from millstream.foundation.coded import CodedGroups, CodedRecords, distinct_numbers, groups_of
from millstream.foundation.key_columns import encode_keys
from millstream.windows import TimeWindows, UnlimitedWindows


class Counting(NamedTuple):
    """How records are counted: in which windows, from which value, and how a number of records is added to a value."""

    windows: TimeWindows | UnlimitedWindows
    begin: Callable[[], Any]
    added: Callable[[Any, int], Any]


class CountedEntries(NamedTuple):
    """Entries with their new values, in the order in which records reached them."""

    keys: list[Any]
    starts: list[int]
    values: list[Any]
    timestamps: list[int]


class WindowCounts(NamedTuple):
    """The windows that records belong to, in the order of their LMDB keys; arrays have one item for each window."""

    keys: list[Any]
    """The distinct keys in order."""
    key_bytes: list[bytes]
    numbers: Any
    """Which of the keys it is."""
    starts: Any
    counts: Any
    latest: Any
    """The latest timestamp of its records."""
    in_order_of_arrival: Any
    """The indexes of the windows in the order in which records reach them one by one."""


def count_windows(records: CodedRecords, windows: TimeWindows | UnlimitedWindows, segment_length: int) -> WindowCounts:
    """Count the records of each window and key; keys must have the order of their encoded keys."""
    keys, codes, times = records.with_sorted_keys()
    examples, spans = distinct_numbers(np.asarray(windows.interval_number(times), np.int64))
    cells = groups_of(spans * len(keys) + codes, times)
    starts_of_spans = [np.array(windows.starts(time), np.int64) for time in times[examples].tolist()]
    sizes = np.array(list(map(len, starts_of_spans)))
    repeats = sizes[spans[cells.rows]]
    starts = _starts_of_cells(starts_of_spans, sizes, spans[cells.rows], repeats)
    cells = CodedGroups(*(np.repeat(column, repeats) for column in cells))
    return _merged(keys, starts, cells, segment_length)


def _starts_of_cells(starts_of_spans: list[Any], sizes: Any, spans: Any, repeats: Any) -> Any:
    """Return the starts of the windows of each cell, one after the other."""
    all_starts, offsets = np.concatenate(starts_of_spans), np.concatenate(([0], np.cumsum(sizes)))[:-1]
    within = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    return all_starts[np.repeat(offsets[spans], repeats) + within]


def _merged(keys: list[Any], starts: Any, cells: CodedGroups, segment_length: int) -> WindowCounts:
    """Merge the cells of the same window and key, in the order of LMDB keys: by segment, key and start."""
    numbers = cells.numbers % len(keys)
    order = np.lexsort((starts, numbers, starts // segment_length))
    numbers, starts = numbers[order], starts[order]
    counts, latest, rows = cells.counts[order], cells.latest[order], cells.rows[order]
    if len(order):
        differs = (numbers[1:] != numbers[:-1]) | (starts[1:] != starts[:-1])
        groups = np.flatnonzero(np.concatenate(([True], differs)))
        numbers, starts = numbers[groups], starts[groups]
        counts, latest = np.add.reduceat(counts, groups), np.maximum.reduceat(latest, groups)
        rows = np.minimum.reduceat(rows, groups)
    return WindowCounts(
        keys=keys,
        key_bytes=encode_keys(keys),
        numbers=numbers,
        starts=starts,
        counts=counts,
        latest=latest,
        in_order_of_arrival=np.lexsort((starts, rows)),
    )
