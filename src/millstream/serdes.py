"""Serdes: how keys and values are encoded in topics and decoded again.

Usually a type is enough: ``value=TaxiRide`` is JSON that msgspec checks while decoding, ``str`` and ``bytes`` are
written as they are, ``int`` and ``float`` as JSON text that any console consumer can show. Java's binary numbers have
serdes of their own. A serde never gets ``None``: a missing key or value is null in the log too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeAlias, get_origin, overload, runtime_checkable

import msgspec
from msgspec import inspect

from millstream.errors import DefinitionError, SerdeError
from millstream.foundation.nesting import can_nest, limit_json_depth, limit_msgpack_depth
from millstream.foundation.text import error_text, shown
from millstream.foundation.type_variables import T, T_in, T_out
from millstream.foundation.typed_decoding import prepare


@runtime_checkable
class Serde(Protocol[T]):
    """Encodes objects as bytes and decodes them; an exception of either becomes a ``SerdeError``."""

    @property
    def name(self) -> str: ...
    def encode(self, value: T, /) -> bytes: ...
    def decode(self, data: bytes, /) -> T: ...


class Encoder(Protocol[T_in]):
    """The ``encode`` of a serde that keeps it as an attribute."""

    def __call__(self, value: T_in, /) -> bytes: ...


class Decoder(Protocol[T_out]):
    """The ``decode`` of a serde that keeps it as an attribute."""

    def __call__(self, data: bytes, /) -> T_out: ...


SerdeLike: TypeAlias = type[T] | Serde[T] | None
"""What ``key=`` and ``value=`` take: a type, a serde, or None for the default."""


class Json(Generic[T]):
    """JSON by msgspec, untyped or checked against a type while decoding, nested up to 64 levels deep.

    >>> Json(int).decode(b"3"), Json().encode({"a": [1, None]})
    (3, b'{"a":[1,null]}')
    """

    __slots__ = ("decode", "decode_lines", "encode", "encode_lines", "has_depth_limit", "type")

    @overload
    def __init__(self, type: type[T]) -> None: ...
    @overload
    def __init__(self: Json[Any], type: object = ...) -> None: ...
    def __init__(self, type: Any = Any) -> None:
        prepare(type)
        encoder, decoder = msgspec.json.Encoder(), msgspec.json.Decoder(type)
        self.type = type
        self.encode: Encoder[T] = encoder.encode
        self.encode_lines: Callable[[list[T]], bytes] = encoder.encode_lines
        self.has_depth_limit = can_nest(type)  # other types limit the depth themselves
        self.decode: Decoder[T] = limit_json_depth(decoder.decode, type) if self.has_depth_limit else decoder.decode
        self.decode_lines: Callable[[bytes], list[T]] = decoder.decode_lines

    @property
    def name(self) -> str:
        return "json" if self.type is Any else f"json:{type_name(self.type)}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Json, (self.type,)


def _refuse_extension(code: int, _data: memoryview) -> Any:
    raise ValueError(f"MessagePack extension {code} is unknown")


class MessagePack(Generic[T]):
    """MessagePack by msgspec, untyped or checked against a type while decoding, nested up to 64 levels deep.

    Extensions, other than timestamps, are refused unless the type declares ``msgspec.msgpack.Ext``.
    """

    __slots__ = ("decode", "encode", "type")

    @overload
    def __init__(self, type: type[T]) -> None: ...
    @overload
    def __init__(self: MessagePack[Any], type: object = ...) -> None: ...
    def __init__(self, type: Any = Any) -> None:
        prepare(type)
        self.type = type
        self.encode: Encoder[T] = msgspec.msgpack.Encoder().encode
        decode = msgspec.msgpack.Decoder(type, ext_hook=_refuse_extension).decode
        self.decode: Decoder[T] = limit_msgpack_depth(decode, type) if can_nest(type) else decode

    @property
    def name(self) -> str:
        return "msgpack" if self.type is Any else f"msgpack:{type_name(self.type)}"

    def __reduce__(self) -> tuple[Any, ...]:
        return MessagePack, (self.type,)


class Text:
    """UTF-8 text without quotes, as Kafka's StringSerializer writes it."""

    __slots__ = ()
    name = "str"
    encode: staticmethod[[str], bytes] = staticmethod(str.encode)
    decode: staticmethod[[bytes], str] = staticmethod(bytes.decode)


class Raw:
    """Bytes as they are."""

    __slots__ = ()
    name = "bytes"
    decode: staticmethod[[bytes], bytes] = staticmethod(bytes)

    @staticmethod
    def encode(value: bytes) -> bytes:
        return value if type(value) is bytes else bytes(memoryview(value))  # bytes(5) would be five zeros


class Readable:
    """The default for keys: text and bytes as they are, everything else as JSON; decodes to text.

    Keys look in a topic as people expect, and go to the partition that Kafka's own tools would choose.
    """

    __slots__ = ()
    name = "readable"
    decode: staticmethod[[bytes], str] = staticmethod(bytes.decode)

    @staticmethod
    def encode(key: Any) -> bytes:
        if type(key) is str:
            return key.encode()
        return key if type(key) is bytes else _encode_json(key)


class Binary(Generic[T]):
    """A big-endian number of fixed size, as Kafka's Java serializers write it."""

    __slots__ = ("decode", "encode", "name")

    def __init__(self, name: str, format: str) -> None:
        layout = struct.Struct(format)
        self.name = name
        self.encode: Encoder[T] = layout.pack
        self.decode: Decoder[T] = lambda data: layout.unpack(data)[0]

    def __reduce__(self) -> str:
        return self.name.upper()


TEXT = Text()
RAW = Raw()
JSON = Json()
READABLE = Readable()
INT32: Binary[int] = Binary("int32", ">i")
INT64: Binary[int] = Binary("int64", ">q")
FLOAT64: Binary[float] = Binary("float64", ">d")

_encode_json = JSON.encode
_WITHOUT_QUOTES: dict[Any, Serde] = {str: TEXT, bytes: RAW}


@overload
def serde_for(declared: None) -> None: ...
@overload
def serde_for(declared: type[T] | Serde[T]) -> Serde[T]: ...
@overload
def serde_for(declared: SerdeLike[T]) -> Serde[T] | None: ...
def serde_for(declared: SerdeLike) -> Serde | None:
    """Return the serde for what a user passed as ``key=`` or ``value=``; None stays None."""
    if declared is None:
        return None
    if not isinstance(declared, type) and isinstance(declared, Serde):
        return declared
    try:
        if isinstance(inspect.type_info(declared), inspect.CustomType):
            raise TypeError("msgspec cannot decode it")
        return _WITHOUT_QUOTES.get(declared) or Json(declared)
    except TypeError as error:
        raise DefinitionError(
            f"{declared!r} cannot be used as a type of keys or values: {error}",
            hint="use a msgspec.Struct, a dataclass, a TypedDict, a builtin type or a serde",
        ) from error


def encode_error(part: str, value: object, serde: Serde, cause: Exception) -> SerdeError:
    """Return the error for a key or value that its serde cannot encode."""
    return SerdeError(
        f"cannot encode {part} {shown(value):.80} as {serde.name}: {error_text(cause)}",
        hint="declare the type where the record is produced, for example value=MyType",
        serde=serde.name,
    )


def type_name(type: Any) -> str:
    """Return a stable, readable name of a type for plans and messages."""
    module = getattr(type, "__module__", "")
    name = getattr(type, "__qualname__", None)
    if name is None or module == "typing" or get_origin(type) is not None:
        return str(type)
    return str(name) if module == "builtins" else f"{module}.{name}"


def route_encoder(serde: Serde) -> Encoder[Any]:
    """Return what encodes a key to the bytes that decide its partition.

    By default they are the key itself; a serde with a method ``encode_route`` decides otherwise.
    """
    encode: Encoder[Any] = getattr(serde, "encode_route", serde.encode)
    return encode
