"""What ``@app.worker`` defines: a function that is called for each job of a share group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError
from millstream.foundation.names import check_name
from millstream.records import Record

Work: TypeAlias = Callable[[Record[Any, Any]], object]


class Reject(Exception):  # noqa: N818 - it is an answer that user code raises, as StopIteration is
    """Raise it in a worker to make the job a dead letter at once, because another try cannot help.

    >>> raise Reject("bad address")
    Traceback (most recent call last):
    millstream.queues.worker.Reject: bad address
    """


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A function, the topics and the group that its jobs come from, and how it is run."""

    work: Work
    topics: tuple[str, ...]
    group: str
    key: Any = None
    value: Any = None
    concurrency: int = 1
    lock: Duration = "30 s"
    max_deliveries: int = 5
    start: Duration = "latest"
    """``latest``, ``earliest`` or a duration ago."""
    retry: Duration = "1 s"
    """How long a job waits after its first failure; twice as long after each further one."""
    max_retry: Duration = "5 min"

    def __post_init__(self) -> None:
        check_name("group", self.group)
        for topic in self.topics:
            check_name("topic", topic)
        if not self.topics:
            raise DefinitionError(f"the worker of group {self.group!r} reads no topic", hint="name at least one topic")
        if self.concurrency < 1:
            raise DefinitionError(f"concurrency is {self.concurrency!r}", hint="it must be at least 1")

    def delay_ms(self, deliveries: int) -> int:
        """Return how long a job waits that has failed in this delivery."""
        first, longest = milliseconds(self.retry), milliseconds(self.max_retry)
        return int(min(longest, first * 2 ** min(deliveries - 1, 32)))
