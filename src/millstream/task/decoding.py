"""Decode whole columns in one pass: calling a decoder once costs less than calling it for each record.

The fast paths only accept columns that they surely decode correctly. All others, also those with a bad record, are
decoded item by item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from millstream.foundation.blocks import LazyItems, join_objects, slices_of
from millstream.foundation.nesting import MAX_DEPTH, MIN_DEEP_BYTES
from millstream.foundation.object_codec import PRESENCE_CODEC
from millstream.functions import Function
from millstream.plan.node import Node
from millstream.plan.select import takes_structs
from millstream.plan.sources import Source
from millstream.serdes import Json, Readable, Serde, Text

Column: TypeAlias = Sequence[bytes | None]
ColumnDecoder: TypeAlias = Callable[[Column], list[Any]]
"""Keys or values → objects, None for null; raises the serde's error if one of them cannot be decoded."""

_LINE_FEED = b"\n"
_MIN_ARROW_ROWS = 2_000
"""Fewer lines are joined by Python: to join them in Arrow, a module has to be imported."""


def column_decoder(serde: Serde) -> ColumnDecoder:
    """Return the fastest decoder for a column of a block."""
    serde = getattr(serde, "equivalent", None) or serde
    if type(serde) in (Text, Readable):
        return _decode_texts
    if type(serde) is Json or getattr(serde, "reads_lines", False):
        return _json_decoder(serde)
    if serde is PRESENCE_CODEC:
        return lambda items: [None if item is None else True for item in items]
    return item_by_item(serde.decode)


def reading_serde(source: Source, readers: Mapping[Node, Sequence[tuple[Node, int]]]) -> Serde:
    """Return what decodes the values of a source: rows that only selections see are Structs instead of dicts."""
    as_structs = getattr(source.value, "as_structs", None)
    if as_structs is None or isinstance(source.timestamp, Function) or not takes_structs(source, readers):
        return source.value
    return as_structs() or source.value


def item_by_item(decode: Callable[[bytes], Any]) -> ColumnDecoder:
    """Return a column decoder that calls ``decode`` for each item."""
    return lambda items: [None if item is None else decode(item) for item in items]


def _join_lines(items: Column) -> bytes | None:
    """Return items as lines; None if an item is null or contains a line feed."""
    try:
        lines = _LINE_FEED.join(items)  # type: ignore[arg-type]
    except TypeError:  # faster than searching for None first
        return None
    return lines if items and lines.count(_LINE_FEED) == len(items) - 1 else None


def _decode_texts(items: Column) -> list[Any]:
    """Decode joined items: no UTF-8 character spans a line feed, so the lines are valid exactly if all items are."""
    if isinstance(items, LazyItems) and items.are_null:
        return [None] * len(items)
    lines = _join_lines(items)
    if lines is None:
        return [None if item is None else item.decode() for item in items]
    return lines.decode().split("\n")


def _json_decoder(serde: Any) -> ColumnDecoder:
    decode_singly, decode_lines, is_plain = item_by_item(serde.decode), serde.decode_lines, type(serde) is Json

    def decode(items: Column) -> list[Any]:
        if isinstance(items, LazyItems) and len(items) >= _MIN_ARROW_ROWS and not _may_be_deep(serde, items):
            buffer = join_objects(items.column)
            if buffer is not None:
                objects = decode_lines(buffer)
                return objects if len(objects) == len(items) else decode_singly(items)
        lines = _join_lines(items)
        if lines is None or not (_are_objects(lines, len(items)) or (is_plain and _are_numbers(lines))):
            return decode_singly(items)
        if serde.has_depth_limit and _can_be_deep(items, lines):
            return decode_singly(items)
        objects = decode_lines(lines)
        return objects if len(objects) == len(items) else decode_singly(items)

    return decode


def _may_be_deep(serde: Any, items: LazyItems) -> bool:
    """Whether the depth of the JSON texts has to be checked because one of them is long."""
    return bool(serde.has_depth_limit and slices_of(items.column)[1].max() >= MIN_DEEP_BYTES)


def _can_be_deep(items: Column, lines: bytes) -> bool:
    """Whether one of the JSON texts in ``items``, joined as ``lines``, has enough brackets to be nested too deeply."""
    longest = max(map(len, items))  # type: ignore[arg-type]
    if longest < MIN_DEEP_BYTES:
        return False
    opening = (np.frombuffer(lines, np.uint8) & 0xDF) == ord("[")  # this bit distinguishes [ and {
    if np.count_nonzero(opening) < MAX_DEPTH + len(items):  # every item has at least one
        return False
    positions = np.flatnonzero(opening)
    return bool((positions[MAX_DEPTH:] - positions[:-MAX_DEPTH]).min() < longest)


def _are_objects(lines: bytes, count: int) -> bool:
    """Whether joined lines can only be decoded as separate JSON objects, one for each line.

    ``}\\n{`` occurs in JSON only between two values, so no value spans two lines. A line with several objects is found
    because the number of results differs.
    """
    return lines[:1] == b"{" and lines[-1:] == b"}" and lines.count(b"}\n{") == count - 1


def _are_numbers(lines: bytes) -> bool:
    """Whether joined lines consist of characters of numbers: no value spans two lines, and a line has at most one."""
    return not lines.translate(None, b"0123456789+-.eE\n")
