"""Events as records of topics, and records of the topic ``out`` as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from benchmarks.nexmark.model import Bid, Event

TARGET = "out"


def topic_of(event: Event) -> str:
    """Return the topic of an event."""
    return type(event).__name__.lower()


def key_of(event: Event) -> bytes | None:
    """Return the key of its record: the id of a person or an auction; a bid has none."""
    return None if isinstance(event, Bid) else b"%d" % event.id


def rows_of(values: Iterable[bytes | None]) -> Iterator[dict[str, Any]]:
    """Decode results; SQL writes its names in upper case. Tombstones are left out."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    for value in values:
        if value is not None:
            yield {name.lower(): column for name, column in decode(value).items()}
