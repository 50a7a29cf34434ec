"""Whole columns of bytes decoded at one go: calling a decoder once costs less than calling it for each record.

The quick ways take what they are sure of. Everything else, a broken record too, is decoded one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from millstream.foundation.object_codec import PRESENCE_CODEC
from millstream.serdes import Json, Readable, Serde, Text

Column: TypeAlias = list[bytes | None]
ColumnDecoder: TypeAlias = Callable[[Column], list[Any]]
"""Keys or values → objects, None for null; raises what the serde raises if one cannot be decoded."""

_FEED = b"\n"


def column_decoder(serde: Serde) -> ColumnDecoder:
    """Return the quickest way to decode a column of a block."""
    if type(serde) in (Text, Readable):
        return _texts
    if type(serde) is Json:
        return _json_decoder(serde)
    if serde is PRESENCE_CODEC:
        return lambda items: [None if item is None else True for item in items]
    return one_by_one(serde.decode)


def one_by_one(decode: Callable[[bytes], Any]) -> ColumnDecoder:
    """Return what calls a decoder for each item."""
    return lambda items: [None if item is None else decode(item) for item in items]


def _joined(items: Column) -> bytes | None:
    """Return items as lines, or None if some are null or have a line feed inside."""
    try:
        lines = _FEED.join(items)  # type: ignore[arg-type]
    except TypeError:  # quicker than looking for None before
        return None
    return lines if items and lines.count(_FEED) == len(items) - 1 else None


def _texts(items: Column) -> list[Any]:
    """No character of UTF-8 can begin before a line feed and end behind it, so all are right or one is wrong."""
    lines = _joined(items)
    if lines is None:
        return [None if item is None else item.decode() for item in items]
    return lines.decode().split("\n")


def _json_decoder(serde: Json) -> ColumnDecoder:
    singly, decode_lines = one_by_one(serde.decode), serde.decode_lines

    def decode(items: Column) -> list[Any]:
        lines = _joined(items)
        if lines is None or not _are_objects(lines, len(items)):
            return singly(items)
        found = decode_lines(lines)
        return found if len(found) == len(items) else singly(items)

    return decode


def _are_objects(lines: bytes, count: int) -> bool:
    """Whether lines can only be read as they were joined: each of them one JSON object.

    Between ``}`` and ``{`` no two lines can be read as one, since JSON has no place for such a pair but between two
    texts. A line that holds several objects makes the number of results differ.
    """
    return lines[:1] == b"{" and lines[-1:] == b"}" and lines.count(b"}\n{") == count - 1
