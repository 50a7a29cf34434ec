"""The codecs of state and shuffles: every plain Python object decodes to an equal one, and data never contains code.

Values are MessagePack. An object whose type MessagePack would lose (tuple, set, Struct, dataclass …) is preceded by a
byte that MessagePack never uses and by the name of its type; inside lists, dicts, tuples and sets it is an extension
with the same content. Decoding looks the name up among the classes that are already loaded and never imports anything.
Fields of Structs and dataclasses are decoded as declared. Keys are encoded so that their bytes sort like the keys.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import struct
import sys
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from typing import Any

import msgspec

from millstream.errors import SerdeError
from millstream.foundation.typed_decoding import prepare
from millstream.records import Windowed
from millstream.serdes import RAW, TEXT, Binary, Json, MessagePack, Serde

_TYPE_MARKER = b"\xc1"
_OBJECT, _PAIRS = 1, 2  # codes of extensions
_SCALARS = frozenset({type(None), bool, int, float, str, bytes})
_COLLECTIONS = frozenset({list, tuple, set, frozenset})
_BUILTIN = {
    kind.__name__: kind
    for kind in (
        int, tuple, set, frozenset, bytearray, datetime.datetime, datetime.date, datetime.time, datetime.timedelta,
        decimal.Decimal, uuid.UUID,
    )
}  # fmt: skip

_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1
_pack: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode
_prefixes: dict[type, bytes] = {}
_sent_classes: dict[str, type] = {}
_JSON_PREFIX = _TYPE_MARKER + len(b"json").to_bytes(2, "big") + b"json"
_decoders: dict[bytes, Callable[[bytes], Any]] = {b"json": msgspec.json.decode}


class ObjectCodec:
    """Encodes self-describing values for state and shuffles, where no type was declared.

    >>> OBJECT_CODEC.decode(OBJECT_CODEC.encode((1, "a")))
    (1, 'a')
    """

    __slots__ = ()
    name = "native"

    @staticmethod
    def encode(value: Any) -> bytes:
        kind = type(value)
        try:
            if kind in _SCALARS:
                return _pack(value)
            if kind is list or kind is dict:
                return _pack(value if _needs_no_wrapping(value) else _to_packable(value))
        except OverflowError:  # MessagePack integers have at most 64 bits
            return _encode_big_int(value) if kind is int else _pack(_to_packable(value))
        is_plain_tuple = kind is tuple and _SCALARS.issuperset(map(type, value))  # as most keys of several fields are
        items = _to_packable(value) if kind in _COLLECTIONS and not is_plain_tuple else value
        prefix = _prefixes.get(kind) or _prefix_of(kind)
        try:
            return prefix + _pack(items)
        except OverflowError:
            if is_plain_tuple:
                return prefix + _pack(_to_packable(value))
            if kind is not datetime.datetime:
                raise
            return prefix + _pack(value.isoformat())  # its UTC is not a date

    @staticmethod
    def decode(data: bytes) -> Any:
        if data[:1] != _TYPE_MARKER:
            return _unpack(data)
        end = 3 + int.from_bytes(data[1:3], "big")
        name = data[3:end]
        return (_decoders.get(name) or _decoder_of(name))(data[end:])

    @classmethod
    def decode_values(cls, encoded: list[bytes]) -> list[Any]:
        """Decode many values in one call; raises if one of them needs more than MessagePack has."""
        return _unpack(_array_of(encoded))  # type: ignore[no-any-return]

    @classmethod
    def encode_column(cls, values: list[Any]) -> list[bytes | None]:
        """Encode values; lists of plain values, as aggregations send them, are checked together."""
        if set(map(type, values)) == {list} and _SCALARS.issuperset(map(type, chain.from_iterable(values))):
            with suppress(OverflowError):
                return list(map(_pack, values))
        return [None if value is None else cls.encode(value) for value in values]


OBJECT_CODEC = ObjectCodec()


def _needs_no_wrapping(value: Any) -> bool:
    """Whether MessagePack alone restores a list or dict; a fast check, since this holds for most."""
    if type(value) is dict:
        if not _SCALARS.issuperset(map(type, value)):
            return False
        value = value.values()
    if _SCALARS.issuperset(map(type, value)):
        return True
    return all(type(item) in _SCALARS or (type(item) in (list, dict) and _needs_no_wrapping(item)) for item in value)


def _to_packable(value: Any) -> Any:
    """Return the collection with every object that MessagePack cannot represent wrapped as an extension."""
    if type(value) is dict:
        if all(map(_is_native_scalar, value)):
            return {key: _item_to_packable(item) for key, item in value.items()}
        pairs = [part for key, item in value.items() for part in (_wrap(key), _item_to_packable(item))]
        return msgspec.msgpack.Ext(_PAIRS, _pack(pairs))
    items = [_item_to_packable(item) for item in value]
    return items if type(value) in (list, tuple) else sorted(items, key=_pack)  # as keys, equal sets need equal bytes


def _item_to_packable(item: Any) -> Any:
    return _to_packable(item) if type(item) in (list, dict) else _wrap(item)


def _wrap(item: Any) -> Any:
    return item if _is_native_scalar(item) else msgspec.msgpack.Ext(_OBJECT, ObjectCodec.encode(item))


def _is_native_scalar(item: Any) -> bool:
    """Whether MessagePack alone restores an object."""
    kind = type(item)
    return kind in _SCALARS and (kind is not int or _MIN_INT <= item <= _MAX_INT)


def _encode_big_int(number: int) -> bytes:
    return _prefix_of(int) + number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def _unwrap(code: int, data: memoryview) -> Any:
    if code == _OBJECT:
        return ObjectCodec.decode(bytes(data))
    parts = iter(_unpack(bytes(data)))
    return dict(zip(parts, parts, strict=True))


_unpack: Callable[[bytes], Any] = msgspec.msgpack.Decoder(ext_hook=_unwrap).decode


def _prefix_of(kind: type) -> bytes:
    if _BUILTIN.get(kind.__name__) is kind:
        name = kind.__name__
    elif _is_data_class(kind) and "<locals>" not in kind.__qualname__:
        name = f"{kind.__module__}:{kind.__qualname__}"
    else:
        raise SerdeError(
            f"cannot store an object of type {kind.__qualname__!r}",
            hint="make it a msgspec.Struct or a dataclass at module level, or declare a serde with value=",
        )
    encoded = name.encode()
    return _prefixes.setdefault(kind, _TYPE_MARKER + len(encoded).to_bytes(2, "big") + encoded)


def _is_data_class(kind: type) -> bool:
    named_tuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return issubclass(kind, msgspec.Struct | enum.Enum) or dataclasses.is_dataclass(kind) or named_tuple


def use_classes(classes: Mapping[str, type]) -> None:
    """Decode objects of classes that were sent to this process by value, by ``module:qualname``, until the next call.

    Such a class cannot be found by its name: it was defined in the notebook of another process.
    """
    if classes != _sent_classes:
        for name in (*_sent_classes, *classes):
            _decoders.pop(name.encode(), None)
        _sent_classes.clear()
        _sent_classes.update(classes)


def _decoder_of(name: bytes) -> Callable[[bytes], Any]:
    kind = _BUILTIN.get(name.decode()) or _sent_classes.get(name.decode()) or _loaded_class(name.decode())
    if kind is None:
        return _unpack  # the class is not loaded in this process, for example the CLI: return the plain data
    if name.startswith(b"__main__:") and name.decode() not in _sent_classes:
        return _decoder(kind)  # not by its name: a cell of a notebook can define the class again
    return _decoders.setdefault(name, _decoder(kind))


def _loaded_class(name: str) -> type | None:
    module, _, path = name.partition(":")
    kind: Any = sys.modules.get(module)
    for part in path.split("."):
        kind = getattr(kind, part, None)
    return kind if isinstance(kind, type) and _is_data_class(kind) else None


@lru_cache(maxsize=256)
def _decoder(kind: Any) -> Callable[[bytes], Any]:
    if kind is int:
        return lambda data: int.from_bytes(data, "big", signed=True)
    if kind in _COLLECTIONS:
        return lambda data: kind(_unpack(data))
    prepare(kind)
    return msgspec.msgpack.Decoder(kind).decode


class TypedCodec(MessagePack[Any]):
    """MessagePack of a declared type; JSON after a marker for what MessagePack cannot represent.

    These are integers of more than 64 bits, and times whose UTC is before the year 1 or after the year 9999.
    """

    __slots__ = ("_decode_list",)

    def __init__(self, type: Any) -> None:
        super().__init__(type)
        decode, decode_json = msgspec.msgpack.Decoder(type).decode, msgspec.json.Decoder(type).decode

        def encode(value: Any) -> bytes:
            try:
                return _pack(value)
            except (OverflowError, ValueError):
                return _JSON_PREFIX + msgspec.json.encode(value)

        def decode_value(data: bytes) -> Any:
            try:
                return decode(data)
            except msgspec.DecodeError:  # the marker is not MessagePack, so looking for it costs nothing before
                if data[: len(_JSON_PREFIX)] != _JSON_PREFIX:
                    raise
                return decode_json(data[len(_JSON_PREFIX) :])

        self.encode = encode
        self.decode = decode_value
        self._decode_list = msgspec.msgpack.Decoder(list[type]).decode

    @staticmethod
    def encode_values(values: list[Any]) -> list[bytes]:
        """Encode many values; raises if MessagePack cannot represent one of them."""
        return list(map(_pack, values))

    def decode_values(self, encoded: list[bytes]) -> list[Any]:
        """Decode many values in one call; raises if one of them is not MessagePack."""
        return self._decode_list(_array_of(encoded))

    def __reduce__(self) -> tuple[Any, ...]:
        return TypedCodec, (self.type,)


def encode_values(codec: Serde, values: list[Any]) -> list[bytes]:
    """Encode many values; in one call if the codec can do that.

    >>> encode_values(TypedCodec(int), [1, 2**70]) == [TypedCodec(int).encode(1), TypedCodec(int).encode(2**70)]
    True
    """
    if isinstance(codec, TypedCodec):
        with suppress(OverflowError, ValueError):
            return codec.encode_values(values)
    return list(map(codec.encode, values))


def decode_values(codec: Serde, encoded: list[bytes]) -> list[Any]:
    """Decode many values; in one call if the codec can do that.

    >>> decode_values(TypedCodec(int), encode_values(TypedCodec(int), [1, 2**70]))
    [1, 1180591620717411303424]
    """
    decode_column: Callable[[list[bytes]], list[Any]] | None = getattr(codec, "decode_values", None)
    if decode_column is not None:
        with suppress(Exception):
            return decode_column(encoded)
    return list(map(codec.decode, encoded))


def _array_of(encoded: list[bytes]) -> bytes:
    """Return encoded values as one MessagePack array."""
    return b"\xdd" + len(encoded).to_bytes(4, "big") + b"".join(encoded)


_typed_codec = lru_cache(256)(TypedCodec)  # a small batch takes less time than its decoders take to create


def value_codec(declared: Serde | None) -> Serde:
    """Return the codec for stored values of a declared serde; typed MessagePack is faster than JSON."""
    if isinstance(declared, Json | MessagePack) and declared.type is not Any:
        try:
            return _typed_codec(declared.type)
        except TypeError:  # the type cannot be hashed
            return TypedCodec(declared.type)
    return declared if isinstance(declared, type(TEXT) | type(RAW) | Binary) else OBJECT_CODEC


class PresenceCodec:
    """Stores only that a value is present, for operators that do not read it."""

    __slots__ = ()
    name = "presence"

    @staticmethod
    def encode(_value: Any) -> bytes:
        return b""

    @staticmethod
    def decode(_data: bytes) -> bool:
        return True


PRESENCE_CODEC = PresenceCodec()


_SIGN = 1 << 63
_pack_number = struct.Struct(">Q").pack
_pack_float = struct.Struct(">d").pack
_pack_window, _unpack_window = struct.Struct(">QQ").pack, struct.Struct(">QQ").unpack


def encode_key(key: Any) -> bytes:
    """Encode a key so that it decodes to an equal object of the same type and its bytes sort like the keys.

    >>> sorted(map(encode_key, [10, 9, -1])) == [encode_key(-1), encode_key(9), encode_key(10)]
    True
    """
    kind = type(key)
    if kind is str:
        return b"s" + key.encode()  # type: ignore[no-any-return]
    if kind is int and -_SIGN <= key < _SIGN:
        return b"i" + _pack_number(key + _SIGN)
    if kind is bytes:
        return b"b" + key  # type: ignore[no-any-return]
    if kind is float:
        bits = int.from_bytes(_pack_float(key), "big")
        return b"f" + _pack_number(bits ^ (_SIGN if bits < _SIGN else 2 * _SIGN - 1))
    if kind is Windowed:
        return b"w" + encode_key(key.key) + _pack_window(key.start, key.end)
    return b"o" + OBJECT_CODEC.encode(key)


def _decode_window(data: bytes) -> Windowed:
    return Windowed(decode_key(data[:-16]), *_unpack_window(data[-16:]))


def decode_key(data: bytes) -> Any:
    """Return the key that ``encode_key`` encoded."""
    return _KEY_DECODERS[data[0]](data[1:])


def _decode_float(data: bytes) -> float:
    bits = int.from_bytes(data, "big")
    bits ^= _SIGN if bits >= _SIGN else 2 * _SIGN - 1
    return float(struct.unpack(">d", bits.to_bytes(8, "big"))[0])


_KEY_DECODERS: dict[int, Callable[[bytes], Any]] = {
    ord("s"): bytes.decode,
    ord("i"): lambda data: int.from_bytes(data, "big") - _SIGN,
    ord("b"): bytes,
    ord("f"): _decode_float,
    ord("w"): _decode_window,
    ord("o"): OBJECT_CODEC.decode,
}
