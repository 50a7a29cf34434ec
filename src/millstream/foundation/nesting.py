"""Limit how deeply untyped data is nested: printing, comparing and storing it recurses and could exhaust the stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import inspect

MAX_DEPTH = 64
MIN_DEEP_BYTES = 2 * MAX_DEPTH + 2
"""Shorter JSON cannot be nested too deeply: each level needs two brackets."""


def check_depth(value: Any) -> None:
    """Raise if lists and dicts are nested more than 64 levels deep."""
    level = [value] if type(value) in (list, dict) else []
    for _ in range(MAX_DEPTH):
        if not level:
            return
        items = [item for parent in level for item in (parent.values() if type(parent) is dict else parent)]
        level = [item for item in items if type(item) is list or type(item) is dict]
    if level:
        raise ValueError(f"the data is nested more than {MAX_DEPTH} levels deep")


def may_be_deep(data: bytes) -> bool:
    """Whether JSON has enough brackets to be nested too deeply; most data is refuted by its length."""
    return len(data) >= MIN_DEEP_BYTES and data.count(b"[") + data.count(b"{") > MAX_DEPTH


def limit_json_depth(decode: Callable[[bytes], Any], kind: Any) -> Callable[[bytes], Any]:
    """Return a decoder of JSON that refuses data that is nested too deeply."""
    decode_untyped = msgspec.json.decode

    def decode_limited(data: bytes) -> Any:
        value = decode(data)
        if may_be_deep(data):
            check_depth(value if kind is Any else decode_untyped(data))
        return value

    return decode_limited


def limit_msgpack_depth(decode: Callable[[bytes], Any], kind: Any) -> Callable[[bytes], Any]:
    """Return a decoder of MessagePack that refuses data that is nested too deeply."""
    decode_untyped = msgspec.msgpack.decode

    def decode_limited(data: bytes) -> Any:
        value = decode(data)
        if len(data) > MAX_DEPTH:
            check_depth(value if kind is Any else decode_untyped(data))
        return value

    return decode_limited


def can_nest(kind: Any) -> bool:
    """Whether data of a type can be nested to any depth: the type is recursive or contains ``Any``."""
    try:
        return _can_nest(inspect.type_info(kind), set())
    except RecursionError:
        return True


def _can_nest(info: Any, path: set[Any]) -> bool:
    if isinstance(info, inspect.AnyType | inspect.RawType | inspect.CustomType):
        return isinstance(info, inspect.AnyType)
    if isinstance(info, list | tuple):
        return any(_can_nest(item, path) for item in info)
    if isinstance(info, inspect.Field):
        return _can_nest(info.type, path)
    if not isinstance(info, inspect.Type):
        return False
    kind = getattr(info, "cls", None)
    if kind is not None and kind in path:
        return True
    path = path if kind is None else path | {kind}
    names = ("type", "types", "item_type", "item_types", "key_type", "value_type", "fields")
    return any(_can_nest(getattr(info, name, None), path) for name in names)
