"""Decode into types, from several threads.

msgspec prepares a type when a value is first decoded into it. A second thread that does so meanwhile takes the type for
prepared, reads a null pointer, and the process dies (SIGSEGV, msgspec 0.22). So types are prepared here, one after
the other, before they are used; ``tests/test_architecture.py`` refuses other ways to decode into a type.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")
_lock = threading.Lock()


def prepare(kind: Any) -> None:
    """Let several threads create decoders of a type, or decode into it, at the same time."""
    try:
        _prepare_once(kind)
    except TypeError:  # it cannot be hashed, or msgspec does not support it and says so again
        _prepare(kind)


def _prepare(kind: Any) -> None:
    with _lock:
        msgspec.msgpack.Decoder(kind)


_prepare_once = lru_cache(1024)(_prepare)


@overload
def decode_json(data: bytes | str, kind: type[T]) -> T: ...
@overload
def decode_json(data: bytes | str, kind: Any) -> Any: ...
def decode_json(data: bytes | str, kind: Any) -> Any:
    """Decode JSON into a type.

    >>> decode_json(b"[1, 2]", tuple[int, ...])
    (1, 2)
    """
    prepare(kind)
    return msgspec.json.decode(data, type=kind)


@overload
def decode_msgpack(data: bytes, kind: type[T]) -> T: ...
@overload
def decode_msgpack(data: bytes, kind: Any) -> Any: ...
def decode_msgpack(data: bytes, kind: Any) -> Any:
    """Decode MessagePack into a type."""
    prepare(kind)
    return msgspec.msgpack.decode(data, type=kind)


@overload
def convert(value: object, kind: type[T], *, strict: bool = True) -> T: ...
@overload
def convert(value: object, kind: Any, *, strict: bool = True) -> Any: ...
def convert(value: object, kind: Any, *, strict: bool = True) -> Any:
    """Convert a decoded value to a type; without ``strict``, text may become a number."""
    prepare(kind)
    return msgspec.convert(value, kind, strict=strict)
