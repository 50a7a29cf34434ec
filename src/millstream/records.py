"""What travels: a record, its headers, and the key of a windowed result."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""Names may repeat and order counts, as in Kafka."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record as a consumer sees it; ``timestamp`` is in milliseconds since 1970.

    >>> Record(topic="lines", partition=0, offset=7, key=None, value="hello", timestamp=0).value
    'hello'
    """

    topic: str
    partition: int
    offset: int
    key: Any
    value: Any
    timestamp: int
    headers: Headers = ()


class TopicPartition(msgspec.Struct, frozen=True, order=True):
    """One partition of one topic."""

    topic: str
    partition: int


class Windowed(msgspec.Struct, frozen=True, order=True):
    """The key of a windowed result; times in milliseconds, ``end`` included only for sliding and session windows.

    >>> Windowed("a", 0, 1000).key
    'a'
    """

    key: Any
    start: int
    end: int
