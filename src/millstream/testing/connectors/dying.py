"""Let a process die at a step, without ending it: everything that was not durable is forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.connect.protocols import (
    ConnectorContext,
    Guarantee,
    Intake,
    Rejected,
    Sink,
    SinkBatch,
    SinkWriter,
    Source,
    SourceReader,
    SupportsCatchingUp,
)


class Died(BaseException):
    """The process has died; no code of the loop handles this."""


class Steps:
    """Counts the steps of a run, and dies at one of them."""

    def __init__(self, die_at: int | None = None) -> None:
        self.passed: list[str] = []
        self._die_at = die_at

    def reach(self, step: str) -> None:
        """Pass a step, or die there."""
        self.passed.append(step)
        if len(self.passed) == self._die_at:
            raise Died(step)


class SteppingBroker:
    """A broker that may die before and after it appends."""

    def __init__(self, broker: Any, steps: Steps) -> None:
        self._broker = broker
        self._steps = steps

    def append_once(self, *arguments: Any, **options: Any) -> None:
        """Append, between two steps."""
        self._steps.reach("before the append")
        self._broker.append_once(*arguments, **options)
        self._steps.reach("after the append")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)


class SteppingSink:
    """A sink that may die before and after a batch is written."""

    def __init__(self, sink: Sink, steps: Steps) -> None:
        self.guarantee: Guarantee = sink.guarantee
        self._sink = sink
        self._steps = steps

    def open(self, context: ConnectorContext, /) -> SteppingWriter:
        """Open the sink after a step."""
        self._steps.reach("before the sink is opened")
        return SteppingWriter(self._sink.open(context), self._steps)


class SteppingWriter:
    """The writer of a ``SteppingSink``."""

    def __init__(self, writer: SinkWriter, steps: Steps) -> None:
        self._writer = writer
        self._steps = steps

    def write(self, batch: SinkBatch) -> Sequence[Rejected]:
        """Write a batch between two steps."""
        self._steps.reach("before the write")
        rejected = self._writer.write(batch)
        self._steps.reach("after the write")
        return rejected

    def close(self) -> None:
        self._writer.close()


class SteppingSource:
    """A source that may die before and after each call."""

    def __init__(self, source: Source, steps: Steps, patience: float) -> None:
        self.guarantee: Guarantee = source.guarantee
        self.topics = source.topics
        self._source = source
        self._steps = steps
        self._patience = patience

    def open(self, position: bytes | None, context: ConnectorContext, /) -> SteppingReader:
        """Open the source after a step."""
        self._steps.reach("before the source is opened")
        return SteppingReader(self._source.open(position, context), self._steps, self._patience)


class SteppingReader:
    """The reader of a ``SteppingSource``."""

    def __init__(self, reader: SourceReader, steps: Steps, patience: float) -> None:
        self._reader = reader
        self._steps = steps
        self._patience = patience

    def read(self, timeout: float) -> Intake | None:
        """Read before a step."""
        intake = self._reader.read(min(timeout, self._patience))
        self._steps.reach("after the read")
        return intake

    def has_caught_up(self) -> bool:
        """Return what the reader says, if it can."""
        return not isinstance(self._reader, SupportsCatchingUp) or self._reader.has_caught_up()

    def committed(self, position: bytes) -> None:
        """Acknowledge between two steps."""
        self._steps.reach("before the acknowledgement")
        self._reader.committed(position)
        self._steps.reach("after the acknowledgement")

    def close(self) -> None:
        self._reader.close()
