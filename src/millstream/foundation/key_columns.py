"""Columns of keys: encoded, decoded and ordered in one pass where all keys have the same common type."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np

from millstream.foundation.blocks import take_items
from millstream.foundation.object_codec import decode_key, encode_key
from millstream.serdes import READABLE, TEXT

_HASHED_AS_IS = frozenset({str, int})
_SIGN = 1 << 63
_number_keys = struct.Struct(">cQ")
_number_type = np.dtype([("kind", "S1"), ("number", ">u8")])
_TEXT_KIND, _NUMBER_KIND = b"si"
_ZERO = b"\0"
_WORD_BYTES = 8
_MAX_ARRAY_BYTES = 64
"""An array of bytes has the length of the longest key for each."""
_encode_json = msgspec.json.Encoder().encode


def encode_keys(keys: list[Any]) -> list[bytes]:
    """Encode many keys as ``encode_key`` does; text and numbers are faster than with a call for each.

    >>> encode_keys(["a", "b"]), encode_keys([1]) == [encode_key(1)]
    ([b'sa', b'sb'], True)
    """
    kinds = set(map(type, keys))
    if kinds == {str}:
        lines = "s" + "\ns".join(keys)
        if lines.count("\n") == len(keys) - 1:  # no key contains a line feed
            return lines.encode().split(b"\n")
        return [b"s" + key.encode() for key in keys]
    if kinds == {int}:
        with suppress(OverflowError):  # a number with more than 64 bits
            return _encode_numbers(keys)
    return list(map(encode_key, keys))


def _encode_numbers(keys: list[int]) -> list[bytes]:
    encoded = np.empty(len(keys), _number_type)
    encoded["kind"] = b"i"
    encoded["number"] = np.array(keys, np.int64).view(np.uint64) ^ np.uint64(_SIGN)
    items: list[bytes] = encoded.view(f"V{_number_type.itemsize}").tolist()
    return items


def encode_routes(keys: list[Any], route_of: Callable[[Any], bytes]) -> list[bytes]:
    """Return the bytes that decide the partition of each key; text and numbers are encoded in one pass.

    >>> encode_routes([1, 20], READABLE.encode), encode_routes(["a"], READABLE.encode)
    ([b'1', b'20'], [b'a'])
    """
    kinds = set(map(type, keys)) if route_of in (READABLE.encode, TEXT.encode) else set()
    if kinds == {str}:
        return [key.encode() for key in keys]
    if kinds == {int} and route_of == READABLE.encode:
        return _encode_json(keys)[1:-1].split(b",")
    return list(map(route_of, keys))


def hashable_keys(keys: list[Any]) -> list[Any]:
    """Return the keys to use in dicts: str and int as they are, other types as bytes, because True == 1 == 1.0."""
    if _HASHED_AS_IS.issuperset(map(type, keys)):
        return keys
    return [key if type(key) in _HASHED_AS_IS else encode_key(key) for key in keys]


def ordered_keys(handles: set[Any]) -> tuple[list[Any], list[bytes]]:
    """Return the results of ``hashable_keys`` in the order of their encoded keys, and the encoded keys.

    >>> ordered_keys({"b", "a"})
    (['a', 'b'], [b'sa', b'sb'])
    """
    if set(map(type, handles)) == {str}:
        texts = sorted(handles)  # UTF-8 has the order of the text
        return texts, encode_keys(texts)
    encoded = {handle if type(handle) is bytes else encode_key(handle): handle for handle in handles}
    key_bytes = sorted(encoded)
    return list(map(encoded.__getitem__, key_bytes)), key_bytes


def sorted_keys(encoded: list[bytes]) -> tuple[list[bytes], Any]:
    """Sort encoded keys; return them and an array of their previous indexes.

    >>> sorted_keys([b"sb", b"sa"])
    ([b'sa', b'sb'], array([1, 0]))
    """
    lengths = set(map(len, encoded))
    if max(lengths) > _MAX_ARRAY_BYTES or (len(lengths) > 1 and _ZERO in b"".join(encoded)):
        order = np.array(sorted(range(len(encoded)), key=encoded.__getitem__))
        return take_items(encoded, order.tolist()), order
    array = np.array(encoded)
    order = _order_of(array)
    if len(lengths) == 1:
        array = array.view(f"V{array.itemsize}")  # an item of type S ends before the zeros at its end
    return array[order].tolist(), order  # new objects, which are next to each other in memory


def _order_of(keys: Any) -> Any:
    """Return the indexes that sort an array of bytes; numbers are faster to compare, if the first bytes differ."""
    characters = keys.view(np.uint8).reshape(len(keys), -1)
    first = int(np.argmax(characters.min(axis=0) != characters.max(axis=0)))
    differing = characters[:, first : first + _WORD_BYTES]
    words = np.zeros((len(keys), _WORD_BYTES), np.uint8)
    words[:, : differing.shape[1]] = differing
    numbers = words.view(">u8")[:, 0].astype(np.uint64)
    order = np.argsort(numbers)
    in_order = numbers[order]
    return order if (in_order[1:] != in_order[:-1]).all() else np.argsort(keys)


def decode_keys(encoded: list[bytes | None]) -> list[Any]:
    """Return the keys that ``encode_key`` encoded, None for None; many keys of one type are decoded in one pass.

    >>> decode_keys([encode_key(-5), encode_key(7)]), decode_keys([None, encode_key("a")])
    ([-5, 7], [None, 'a'])
    """
    if None not in encoded:
        kinds = {key[0] for key in encoded if key}
        if kinds == {_TEXT_KIND}:
            return [key[1:].decode() for key in encoded if key]
        if kinds == {_NUMBER_KIND}:
            return [number - _SIGN for _, number in _number_keys.iter_unpack(b"".join(filter(None, encoded)))]
    return [None if key is None else decode_key(key) for key in encoded]
