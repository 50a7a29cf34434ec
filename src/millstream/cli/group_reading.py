"""Reads records as a member of a consumer group; they are committed once they are printed."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator

from millstream.broker import Broker
from millstream.cli.output import show_message
from millstream.consumer import Consumer
from millstream.records import Record

_SESSION = "1 min"
_POLL_SECONDS = 0.25
_ROUND_RECORDS = 10_000
_REBALANCE_SECONDS = 30.0  # how long to wait for partitions: Kafka takes seconds, and members may have to release them


def group_rounds(
    broker: Broker, group: str, topics: tuple[str, ...], *, follow: bool, from_end: bool, limit: int | None
) -> Generator[Iterator[Record], None, None]:
    """Yield the records of this member's partitions in rounds, up to ``limit`` records in total.

    A round is committed when the next one is requested.
    """
    deadline = time.monotonic() + _REBALANCE_SECONDS
    left = _ROUND_RECORDS if limit is None else limit
    with Consumer(
        broker,
        group,
        topics=topics,
        key=bytes,
        value=bytes,
        auto_offset_reset="latest" if from_end else "earliest",
        auto_commit=False,
        session_timeout=_SESSION,
    ) as consumer:
        while left > 0:
            records = consumer.poll(_POLL_SECONDS, min(left, _ROUND_RECORDS))
            yield iter(records)
            consumer.commit()
            left -= 0 if limit is None else len(records)
            is_rebalancing = not consumer.assignment and time.monotonic() < deadline
            if not follow and not is_rebalancing and not any(consumer.lag().values()):
                if not consumer.assignment:
                    show_message(f"group {group!r} has assigned no partition to this member; others read all of them")
                return
