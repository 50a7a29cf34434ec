"""How keys and values become bytes in topics, and back.

A type is enough in most places: ``value=TaxiRide`` is JSON checked by msgspec, ``str`` and ``bytes`` are raw, and
``int`` and ``float`` are their JSON text, readable in any console consumer. Java's binary numbers have their own
serdes. ``None`` is never handed to a serde: a missing key or value is null in the log too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, get_origin, runtime_checkable

import msgspec
from msgspec import inspect

from millstream.errors import DefinitionError, SerdeError


@runtime_checkable
class Serde(Protocol):
    """Turns objects into bytes and back; both may raise any exception, which becomes a ``SerdeError``."""

    @property
    def name(self) -> str: ...
    @property
    def encode(self) -> Callable[[Any], bytes]: ...
    @property
    def decode(self) -> Callable[[bytes], Any]: ...


SerdeLike: TypeAlias = type | Serde | None
"""What ``key=`` and ``value=`` take; ``None`` means the default of the place."""


class Json:
    """JSON by msgspec, untyped or checked against a type while decoding.

    >>> Json(int).decode(b"3"), Json().encode({"a": [1, None]})
    (3, b'{"a":[1,null]}')
    """

    __slots__ = ("decode", "decode_lines", "encode", "encode_lines", "type")

    def __init__(self, type: Any = Any) -> None:
        encoder, decoder = msgspec.json.Encoder(), msgspec.json.Decoder(type)
        self.type = type
        self.encode: Callable[[Any], bytes] = encoder.encode
        self.encode_lines: Callable[[list[Any]], bytes] = encoder.encode_lines
        self.decode: Callable[[bytes], Any] = decoder.decode
        self.decode_lines: Callable[[bytes], list[Any]] = decoder.decode_lines

    @property
    def name(self) -> str:
        return "json" if self.type is Any else f"json:{type_name(self.type)}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Json, (self.type,)


class MessagePack:
    """MessagePack by msgspec, untyped or checked against a type while decoding."""

    __slots__ = ("decode", "encode", "type")

    def __init__(self, type: Any = Any) -> None:
        self.type = type
        self.encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode
        self.decode: Callable[[bytes], Any] = msgspec.msgpack.Decoder(type).decode

    @property
    def name(self) -> str:
        return "msgpack" if self.type is Any else f"msgpack:{type_name(self.type)}"

    def __reduce__(self) -> tuple[Any, ...]:
        return MessagePack, (self.type,)


class Text:
    """UTF-8 text without quotes, as Kafka's StringSerializer writes it."""

    __slots__ = ()
    name = "str"
    encode: Callable[[str], bytes] = staticmethod(str.encode)
    decode: Callable[[bytes], str] = staticmethod(bytes.decode)


class Raw:
    """Bytes as they are."""

    __slots__ = ()
    name = "bytes"
    decode: Callable[[bytes], bytes] = staticmethod(bytes)

    @staticmethod
    def encode(value: Any) -> bytes:
        return value if type(value) is bytes else bytes(memoryview(value))  # bytes(5) would be five zeros


class Readable:
    """The default for keys: text and bytes raw, everything else as JSON; decodes to text.

    So that keys look in a topic as people expect them, and partition as Kafka's own tools would.
    """

    __slots__ = ()
    name = "readable"
    decode: Callable[[bytes], str] = staticmethod(bytes.decode)

    @staticmethod
    def encode(key: Any) -> bytes:
        if type(key) is str:
            return key.encode()
        return key if type(key) is bytes else _encode_json(key)


class Binary:
    """A big-endian number of fixed size, as Kafka's Java serializers write it."""

    __slots__ = ("decode", "encode", "name")

    def __init__(self, name: str, format: str) -> None:
        layout = struct.Struct(format)
        self.name = name
        self.encode: Callable[[Any], bytes] = layout.pack
        self.decode: Callable[[bytes], Any] = lambda data: layout.unpack(data)[0]

    def __reduce__(self) -> str:
        return self.name.upper()


TEXT = Text()
RAW = Raw()
JSON = Json()
READABLE = Readable()
INT32 = Binary("int32", ">i")
INT64 = Binary("int64", ">q")
FLOAT64 = Binary("float64", ">d")

_encode_json = JSON.encode
_WITHOUT_QUOTES: dict[Any, Serde] = {str: TEXT, bytes: RAW}


def serde_for(declared: SerdeLike) -> Serde | None:
    """Return the serde that a user's ``key=`` or ``value=`` means, or None for "not said"."""
    if declared is None:
        return None
    if not isinstance(declared, type) and isinstance(declared, Serde):
        return declared
    try:
        if isinstance(inspect.type_info(declared), inspect.CustomType):
            raise TypeError("msgspec does not know how to build it")
        return _WITHOUT_QUOTES.get(declared) or Json(declared)
    except TypeError as error:
        raise DefinitionError(
            f"{declared!r} cannot be used as a type of keys or values: {error}",
            hint="use a msgspec.Struct, a dataclass, a TypedDict, a builtin type or a serde",
        ) from error


def encode_error(what: str, value: object, serde: Serde, cause: Exception) -> SerdeError:
    """Build the error for an object that its serde refuses."""
    return SerdeError(
        f"cannot encode {what} {value!r:.80} as {serde.name}: {cause}",
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


def serde_named(name: str) -> Serde | None:
    """Return the serde that calls itself ``name``, untyped if it was for a class, or None for one of the user's."""
    kind = name.partition(":")[0]
    known: tuple[Serde, ...] = (JSON, MessagePack(), TEXT, RAW, READABLE, INT32, INT64, FLOAT64)
    return next((one for one in known if one.name == kind), None)
