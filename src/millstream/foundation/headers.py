"""Check headers and timestamps before they are written: a log stores whole blocks, so one bad record would cost all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from millstream.errors import DefinitionError
from millstream.records import Headers

HeadersLike: TypeAlias = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]
"""What users pass as headers; text is encoded as UTF-8."""

TIMESTAMP_LIMIT = 1 << 63
"""Timestamps are stored as signed 64-bit numbers."""

MAX_HEADERS = 1_000
"""How many headers a record can have; brokers bound their size, but not their number."""
_ADDED_HEADERS = 100
"""How many more a stored record can have, for those that dead letters and late records get."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Headers).decode


class InvalidHeaders(tuple[tuple[str, bytes | None], ...]):
    """Stored headers that cannot be decoded: a single pair whose value is what is stored."""

    __slots__ = ()


def header_pairs(headers: HeadersLike) -> Headers:
    """Return headers as pairs; raises if a name is not text or a value is neither bytes, text nor None.

    >>> header_pairs({"attempt": "3", "trace": None})
    (('attempt', b'3'), ('trace', None))
    """
    items: Any = headers.items() if isinstance(headers, Mapping) else headers
    try:
        pairs = tuple([_pair(name, value) for name, value in items])
        if len(pairs) > MAX_HEADERS:
            raise DefinitionError(
                f"a record has {len(pairs):,} headers",
                hint=f"at most {MAX_HEADERS:,} are allowed; put them into the value",
            )
        return pairs
    except DefinitionError:
        raise
    except Exception as error:  # not pairs, or not iterable
        raise DefinitionError(
            f"headers of type {type(headers).__name__} are not pairs of a name and a value",
            hint='pass a dict such as {"trace": b"1"}, or pairs',
        ) from error


def _pair(name: Any, value: Any) -> tuple[str, bytes | None]:
    try:
        if isinstance(name, str):
            name.encode()
            if value is None or type(value) is bytes:
                return name, value
            if isinstance(value, str):
                return name, value.encode()
            if isinstance(value, bytes | bytearray | memoryview):
                return name, bytes(value)
    except UnicodeEncodeError as error:
        raise DefinitionError(f"header {name!a:.80} cannot be encoded as UTF-8", hint="pass bytes") from error
    if not isinstance(name, str):
        raise DefinitionError(f"a header's name is of type {type(name).__name__}", hint="names are text")
    raise DefinitionError(
        f"header {name!r:.80} has a value of type {type(value).__name__}", hint="values are bytes, text or None"
    )


def headers_size(pairs: Headers) -> int:
    """Return how many bytes a block stores for the headers of a record."""
    return len(_pack(pairs)) if pairs else 0


def pack_headers(pairs: Headers) -> bytes | None:
    """Return what a block stores for the headers of a record."""
    return _pack(pairs) if pairs else None


def unpack_headers(packed: bytes) -> Headers:
    """Return the headers that a block stores for a record; ``InvalidHeaders`` if that fails or they are too many."""
    try:
        headers = _unpack(packed)
        if len(headers) <= MAX_HEADERS + _ADDED_HEADERS:
            return headers
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    return InvalidHeaders((("__millstream.invalid_headers", packed),))


def check_timestamp(timestamp: Any) -> int:
    """Return a timestamp; raises if it is not a whole number of milliseconds that a record can have."""
    if type(timestamp) is int and 0 <= timestamp < TIMESTAMP_LIMIT:
        return timestamp
    problem = "is out of range" if type(timestamp) is int else "is not a whole number"
    raise DefinitionError(f"timestamp {timestamp!a:.60} {problem}", hint="pass milliseconds since 1970")
