"""Settings of an app, all with defaults that suit one machine."""

from __future__ import annotations

from typing import Literal, get_args, get_origin

import msgspec

from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """How an app runs; pass as ``App(..., config=Config(...))``.

    >>> Config(partitions=8).partitions
    8
    """

    partitions: int = 4
    """Partitions of topics that the app creates."""
    create_topics: bool = True
    """Create missing topics at start; otherwise a missing one is an error."""
    caching: bool = True
    """Pass on only the last update per key and batch; off: every update."""
    durability: Literal["sync", "os"] = "sync"
    """sync: a batch that is done survives a power cut; os: it survives the process but not the machine."""
    on_error: Literal["fail", "skip", "dead_letter"] = "fail"
    """What happens when a user function raises."""
    on_decode_error: Literal["fail", "skip", "dead_letter"] = "dead_letter"
    """What happens to a record that cannot be decoded."""
    dead_letter_topic: str | None = None
    """Where dead letters go; by default ``<app>.dead-letters``."""
    output_prefix: str = ""
    """Put before the names of topics that the app writes, so that a second one can run beside the first."""
    max_batch_records: int = 500_000
    """The most records that one batch takes."""
    target_batch: Duration = "1 s"
    """How long a batch should take when there is a backlog; its size is adapted to it."""
    small_batch_records: int = 2_000
    """Up to this many records a batch runs as a single Spark task, which costs less; 0: always in parallel."""
    stuck_after: Duration | None = None
    """Give up on a batch that takes longer, end its workers and run it again; None: only say that it takes long."""
    metrics_port: int | None = None
    """Serve figures for Prometheus at ``http://127.0.0.1:PORT/metrics`` while the app runs; 0: any free port."""
    checkpoint: str | None = None
    """Where state is shipped so that several hosts can run the app: a path or URI that all of them reach."""
    snapshot_every: int = 100
    """After how many batches of a task its whole state is shipped, rather than what changed."""
    master: str = "local[*]"
    """Where Spark runs."""
    spark: dict[str, str] = {}
    """Further settings of the Spark session; they win over ours."""

    def __post_init__(self) -> None:
        for field in msgspec.structs.fields(self):
            choices = get_args(field.type) if get_origin(field.type) is Literal else ()
            if choices and getattr(self, field.name) not in choices:
                raise DefinitionError(
                    f"{field.name}={getattr(self, field.name)!r} is not possible",
                    hint=f"use one of {', '.join(map(repr, choices))}",
                )
        if self.partitions < 1 or self.max_batch_records < 1:
            name = "partitions" if self.partitions < 1 else "max_batch_records"
            raise DefinitionError(f"{name}={getattr(self, name)} is not possible", hint="use 1 or more")
        for name, duration in (("target_batch", self.target_batch), ("stuck_after", self.stuck_after)):
            if duration is not None and milliseconds(duration) < 1:
                raise DefinitionError(f"{name}={duration!r} is not possible", hint='for example "1 s"')
