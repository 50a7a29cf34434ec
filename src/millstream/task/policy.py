"""Error policies: what happens to records that fail, and the headers of late records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from millstream.config import Config
from millstream.errors import MillstreamError
from millstream.operators.runtime import Columns
from millstream.plan.node import Node
from millstream.records import Headers, Windowed
from millstream.task.current_record import CurrentRecord

OnError = Literal["fail", "skip", "dead_letter"]


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """The error policies of an app, and the topic of its dead letters."""

    on_error: OnError = "fail"
    on_decode_error: OnError = "dead_letter"
    dead_letter_topic: str
    output_prefix: str = ""
    """Prefix of the names of all other output topics."""
    dead_letter_on_fail: bool = False
    """Whether a record that makes the app fail becomes a dead letter too: yes if the user has named the topic."""
    processing_log: str | None = None
    """The topic for errors of SQL expressions; None: they are only counted."""

    @classmethod
    def of(cls, app: str, config: Config) -> Policies:
        """Return the policies from an app's settings."""
        return cls(
            on_error=config.on_error,
            on_decode_error=config.on_decode_error,
            dead_letter_topic=config.dead_letter_topic or f"{app}.dead-letters",
            output_prefix=config.output_prefix,
            dead_letter_on_fail=config.dead_letter_topic is not None,
            processing_log=f"{app}.processing-log" if config.processing_log else None,
        )


class FailedRecordError(Exception):
    """Stops a task at a record whose dead letter is published although the batch is not applied."""

    def __init__(self, error: MillstreamError, topic: str, dead_letter: Columns) -> None:
        super().__init__(str(error))
        self.error = error
        self.topic = topic
        self.dead_letter = dead_letter


def late_headers(node: Node, context: CurrentRecord, windows: Sequence[Windowed]) -> Headers:
    """Return the headers that say which windows a late record missed."""
    facts = {
        "__millstream.late.node": node.name or "",
        "__millstream.late.windows": ",".join(f"{window.start}-{window.end}" for window in windows),
        "__millstream.late.stream_time": str(context.stream_time),
        "__millstream.late.topic": context.topic,
        "__millstream.late.partition": str(context.partition),
        "__millstream.late.offset": str(context.offset),
    }
    return tuple((name, text.encode()) for name, text in facts.items())
