"""Records, their headers, and the keys of windowed results."""

from __future__ import annotations

from typing import Generic, TypeAlias

import msgspec

from millstream.foundation.type_variables import K, V

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""Names may repeat, and order matters, as in Kafka."""


class Record(msgspec.Struct, Generic[K, V], frozen=True, gc=False):
    """A record with its position in a topic; ``timestamp`` is in milliseconds since 1970.

    >>> Record(topic="lines", partition=0, offset=7, key=None, value="hello", timestamp=0).value
    'hello'
    """

    topic: str
    partition: int
    offset: int
    key: K
    value: V
    timestamp: int
    headers: Headers = ()


class TopicPartition(msgspec.Struct, frozen=True, order=True):
    """One partition of one topic."""

    topic: str
    partition: int


class Windowed(msgspec.Struct, Generic[K], frozen=True, order=True):
    """The key of a windowed result; ``end`` is part of the window for sliding and session windows only.

    Times are in milliseconds since 1970.

    >>> Windowed("a", 0, 1000).key
    'a'
    """

    key: K
    start: int
    end: int
