"""Records for a member of a consumer group, committed once they are printed."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator

from millstream.broker import Broker
from millstream.consumer import Consumer
from millstream.records import Record

_SESSION = "1 min"
_NAP_SECONDS = 0.25
_ROUND_RECORDS = 10_000
_PATIENCE_SECONDS = 3.0  # how long to wait for partitions that others have to give up first


def shared_rounds(
    broker: Broker, group: str, topics: tuple[str, ...], *, follow: bool, from_end: bool, most: int | None
) -> Generator[Iterator[Record], None, None]:
    """Yield what falls to us of the group's records now, then what has come since, and so on, up to ``most`` in all.

    A round is committed when the next one is asked for.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    left = _ROUND_RECORDS if most is None else most
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
            records = consumer.poll(_NAP_SECONDS, min(left, _ROUND_RECORDS))
            yield iter(records)
            consumer.commit()
            left -= 0 if most is None else len(records)
            is_patient = not consumer.assignment and time.monotonic() < deadline
            if not follow and not is_patient and not any(consumer.lag().values()):
                return
