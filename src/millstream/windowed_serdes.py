"""Serdes of windowed keys, in the formats of Kafka Streams.

A time-windowed key is the bytes of the inner key and the start of the window, a session-windowed key the bytes of the
inner key, the end and the start of the session; times are 8 bytes, big-endian. The inner key decides the partition.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from operator import add
from typing import Any, Generic

from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError, SerdeError
from millstream.foundation.type_variables import TextKey
from millstream.records import Windowed
from millstream.serdes import (
    FLOAT64,
    INT32,
    INT64,
    JSON,
    RAW,
    READABLE,
    TEXT,
    MessagePack,
    Serde,
    SerdeLike,
    route_encoder,
    serde_for,
)
from millstream.windows import FOREVER, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows

_START = struct.Struct(">q")
_END_START = struct.Struct(">qq")


class _Windowed(Generic[TextKey]):
    """A serde of windowed keys with the serde of the keys inside."""

    __slots__ = ("inner",)
    kind: str

    def __init__(self, inner: Serde[TextKey]) -> None:
        self.inner = inner

    def encode_route(self, key: Windowed[TextKey]) -> bytes:
        """Return the bytes that decide the partition: those of the inner key."""
        return route_encoder(self.inner)(self._checked(key).key)

    def encode_columns(self, keys: list[Windowed[TextKey]]) -> tuple[list[bytes], list[bytes]]:
        """Encode many keys, and the bytes that decide their partitions; raises if one of them cannot be encoded."""
        if set(map(type, keys)) != {Windowed}:
            raise SerdeError(f"not all keys are windowed, as {self.kind} requires", hint="encode them one by one")
        serde: Serde = self.inner
        inner: list[Any] = [key.key for key in keys]
        encode, encode_route = serde.encode, route_encoder(serde)
        is_text = (serde is READABLE or serde is TEXT) and set(map(type, inner)) == {str}
        encoded = [key.encode() for key in inner] if is_text else _encoded(encode, inner)
        routes = encoded if encode_route == encode else list(map(encode_route, inner))
        return list(map(add, encoded, self._times(keys))), routes

    def _times(self, keys: list[Windowed[TextKey]]) -> Iterable[bytes]:
        """Return what follows the inner key of each key."""
        raise NotImplementedError

    def _checked(self, key: Any) -> Windowed[TextKey]:
        if type(key) is Windowed:
            return key
        raise SerdeError(
            f"key {key!r:.80} is not windowed",
            hint=f"pass Windowed(key, start, end), or use another serde than {self.kind}",
        )

    def _split(self, data: bytes, times: int) -> tuple[TextKey, bytes]:
        if len(data) < times:
            raise SerdeError(
                f"{data!r:.80} is too short for a {self.kind} key", hint=f"its last {times} bytes are the window"
            )
        return self.inner.decode(data[:-times]), data[-times:]


class TimeWindowed(_Windowed[TextKey]):
    """Keys of time windows, as ``TimeWindowedSerializer`` writes them; the end of a window is not stored.

    ``size`` is the length of the windows in milliseconds, which decoding requires.
    """

    __slots__ = ("size",)
    kind = "time-windowed"

    def __init__(self, inner: Serde[TextKey], size: int | None = None) -> None:
        super().__init__(inner)
        self.size = size

    @property
    def name(self) -> str:
        return f"{self.kind}:{'' if self.size is None else self.size}:{self.inner.name}"

    def encode(self, key: Windowed[TextKey]) -> bytes:
        """Encode the inner key and the start of the window."""
        start, end = self._checked(key).start, key.end
        if self.size is not None and end != min(start + self.size, FOREVER):
            raise SerdeError(
                f"the window of {key!r:.80} is not {self.size} ms long", hint="use the size of its windows, or none"
            )
        return self.inner.encode(key.key) + _START.pack(start)

    def _times(self, keys: list[Windowed[TextKey]]) -> Iterable[bytes]:
        size = self.size
        if size is not None and not all(key.end == min(key.start + size, FOREVER) for key in keys):
            raise SerdeError(f"not all windows are {size} ms long", hint="encode the keys one by one")
        return _encoded(_START.pack, [key.start for key in keys])

    def decode(self, data: bytes) -> Windowed[TextKey]:
        """Decode the inner key and the window, whose end is computed from the size."""
        if self.size is None:
            raise SerdeError(_NO_SIZE, hint=_SIZE_HINT)
        inner, times = self._split(data, _START.size)
        start: int = _START.unpack(times)[0]
        return Windowed(inner, start, min(start + self.size, FOREVER))


class SessionWindowed(_Windowed[TextKey]):
    """Keys of session windows, as ``SessionWindowedSerializer`` writes them."""

    __slots__ = ()
    kind = "session-windowed"

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.inner.name}"

    def encode(self, key: Windowed[TextKey]) -> bytes:
        """Encode the inner key, the end and the start of the session."""
        return self.inner.encode(self._checked(key).key) + _END_START.pack(key.end, key.start)

    def _times(self, keys: list[Windowed[TextKey]]) -> Iterable[bytes]:
        return map(_END_START.pack, [key.end for key in keys], [key.start for key in keys])

    def decode(self, data: bytes) -> Windowed[TextKey]:
        """Decode the inner key and the session."""
        inner, times = self._split(data, _END_START.size)
        end, start = _END_START.unpack(times)
        return Windowed(inner, start, end)


def _encoded(encode: Callable[[Any], bytes], items: list[Any]) -> list[bytes]:
    """Encode many items; equal ones once, if items that are equal have the same bytes."""
    if set(map(type, items)) not in ({str}, {int}):
        return list(map(encode, items))
    known = {item: encode(item) for item in set(items)}
    return [known[item] for item in items]


_NO_SIZE = "time-windowed keys can only be read if the size of the windows is known"
_SIZE_HINT = 'give it: time_windowed(str, size="5 min")'


def time_windowed(key: SerdeLike[TextKey] = None, *, size: Duration | None = None) -> TimeWindowed[TextKey]:
    """Return the serde of keys of tumbling, hopping, sliding and unlimited windows in Kafka Streams' format.

    ``key`` is the type or serde of the inner key. Topics contain only the start of a window, so a reader needs the
    ``size``: of sliding windows their difference. A sink behind a window does not need it.

    >>> time_windowed(str).encode(Windowed("ann", 60_000, 120_000))
    b'ann\\x00\\x00\\x00\\x00\\x00\\x00\\xea`'
    >>> time_windowed(str, size="1 min").decode(b"ann" + (60_000).to_bytes(8, "big"))
    Windowed(key='ann', start=60000, end=120000)
    """
    length = None if size is None else milliseconds(size)
    if length is not None and length < 0:
        raise DefinitionError(f"size={size!r} is not valid", hint='use the size of the windows, such as "5 min"')
    return TimeWindowed(_inner(key), length)


def session_windowed(key: SerdeLike[TextKey] = None) -> SessionWindowed[TextKey]:
    """Return the serde of keys of session windows in Kafka Streams' format.

    >>> session_windowed(str).decode(session_windowed(str).encode(Windowed("ann", 5, 9)))
    Windowed(key='ann', start=5, end=9)
    """
    return SessionWindowed(_inner(key))


def _inner(key: SerdeLike) -> Serde:
    return serde_for(key) or READABLE


def windowed_serde(windows: Windows, inner: Serde | None) -> Serde:
    """Return the serde of the keys that an aggregation by windows emits."""
    key = inner or READABLE
    if isinstance(windows, SessionWindows):
        return SessionWindowed(key)
    assert isinstance(windows, TimeWindows | UnlimitedWindows | SlidingWindows)
    return TimeWindowed(key, windows.difference if isinstance(windows, SlidingWindows) else windows.size)


def sized_like(serde: Serde | None, source: Serde | None) -> Serde | None:
    """Return a serde that a user declared without a size with the size of the windows that it follows."""
    if isinstance(serde, TimeWindowed) and serde.size is None and isinstance(source, TimeWindowed):
        return TimeWindowed(serde.inner, source.size)
    return serde


def reading_serde(declared: SerdeLike[TextKey]) -> Serde[TextKey] | None:
    """Return the serde for what a user passed as ``key=`` of a reader; the size of time windows must be known."""
    serde = serde_for(declared)
    if isinstance(serde, TimeWindowed) and serde.size is None:
        raise DefinitionError(_NO_SIZE, hint=_SIZE_HINT)
    return serde


def serde_named(name: str) -> Serde | None:
    """Return the built-in serde of this name, untyped if it was declared with a class; None for a user's own serde."""
    kind, _, rest = name.partition(":")
    if kind == TimeWindowed.kind:
        size, _, inner_name = rest.partition(":")
        inner = serde_named(inner_name)
        return None if inner is None else TimeWindowed(inner, int(size) if size else None)
    if kind == SessionWindowed.kind:
        inner = serde_named(rest)
        return None if inner is None else SessionWindowed(inner)
    built_in: tuple[Serde, ...] = (JSON, MessagePack(), TEXT, RAW, READABLE, INT32, INT64, FLOAT64)
    return next((serde for serde in built_in if serde.name == kind), None)
