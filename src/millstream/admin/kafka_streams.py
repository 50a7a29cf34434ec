"""What a Kafka Streams application leaves on its cluster: offsets of its group, changelogs, repartition topics.

A changelog has one record per update, with the timestamp of the row and the value as its serde writes it; a null value
deletes the row. The keys of windows end in their start and a number, those of sessions in their end and start.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from millstream.broker import Broker, Offsets
from millstream.errors import SerdeError
from millstream.foundation.blocks import rows_of

_WINDOW = struct.Struct(">QI")
_SESSION = struct.Struct(">QQ")
_CHANGELOG, _REPARTITION = "-changelog", "-repartition"


class StoreUpdate(NamedTuple):
    """An update of a store, with key and value as they are in the changelog."""

    key: bytes
    value: bytes | None
    timestamp: int


StoreKey: TypeAlias = tuple[bytes, tuple[int, ...]]
"""A key without its window, and the position of the window: its start; for sessions their end and start."""


def changelog_name(application: str, store: str) -> str:
    """Return the name of the changelog of a store.

    >>> changelog_name("orders", "totals")
    'orders-totals-changelog'
    """
    return f"{application}-{store}{_CHANGELOG}"


def changelogs_of(broker: Broker, application: str) -> list[str]:
    """Return the stores of an application that have a changelog."""
    names = (name for name in _topics_of(broker, application) if name.endswith(_CHANGELOG))
    return [name[len(application) + 1 : -len(_CHANGELOG)] for name in names]


def repartition_topics(broker: Broker, application: str) -> list[str]:
    """Return the repartition topics of an application."""
    return [name for name in _topics_of(broker, application) if name.endswith(_REPARTITION)]


def _topics_of(broker: Broker, application: str) -> list[str]:
    """Return the topics whose names start with that of an application, and not with that of a longer one."""
    longer = tuple(f"{group}-" for group in broker.group_names() if group.startswith(f"{application}-"))
    names = broker.topic_names()
    return sorted(name for name in names if name.startswith(f"{application}-") and not name.startswith(longer))


def split_plain_key(data: bytes) -> StoreKey:
    """Return the key of a row."""
    return data, ()


def split_window_key(data: bytes) -> StoreKey:
    """Return key and start of a window.

    >>> split_window_key(b"k" + (60_000).to_bytes(8) + (0).to_bytes(4))
    (b'k', (60000,))
    """
    key, (start, _number) = _split(data, _WINDOW)
    return key, (start,)


def split_session_key(data: bytes) -> StoreKey:
    """Return the key, and end and start of a session.

    >>> split_session_key(b"k" + (70).to_bytes(8) + (50).to_bytes(8))
    (b'k', (70, 50))
    """
    return _split(data, _SESSION)


def _split(data: bytes, layout: struct.Struct) -> StoreKey:
    if len(data) < layout.size:
        raise SerdeError(
            f"a key of {len(data)} bytes is not that of a window",
            hint="is this the changelog of another kind of store?",
        )
    return data[: -layout.size], layout.unpack(data[-layout.size :])


SplitKey: TypeAlias = Callable[[bytes], StoreKey]


def updates(broker: Broker, topic: str, partition: int, bounds: Offsets) -> Iterator[list[StoreUpdate]]:
    """Yield the committed records of a partition that have a key, chunk by chunk."""
    for chunk in broker.read(topic, partition, bounds.begin, bounds.end):
        rows = rows_of(chunk.block)
        records = zip(rows.keys, rows.values, rows.timestamps, strict=True)
        yield [StoreUpdate(key, value, timestamp) for key, value, timestamp in records if key is not None]


def waiting_records(broker: Broker, topic: str, committed: dict[int, int]) -> int:
    """Return how many records of a topic were not read; ``committed`` has the offsets by partition.

    They are counted one by one, because the offsets of a transactional topic include its markers.
    """
    return sum(
        len(chunk.offsets)
        for partition, bounds in enumerate(broker.offsets(topic))
        for chunk in broker.read(topic, partition, max(bounds.begin, committed.get(partition, 0)), bounds.end)
    )
