"""The protocol that appends a sequence exactly once: its steps, and why at most one attempt commits.

A commit requires the newest epoch of the transactional id. ``init`` assigns the epoch, and the marker is read after it.
If another attempt committed before this ``init``, its marker is found and the append is skipped. If another attempt
calls ``init`` later, this one is fenced and starts again. If an outcome is unknown, a new producer is created; nothing
is assumed.

The steps do not depend on the client, so that a model can run them in every possible order (tests/kafka/test_model.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from millstream.broker import Output
from millstream.kafka.marker import Marker, ProducerIdentity, is_published

Step = Literal["open", "init", "read", "begin", "produce", "mark", "commit", "end"]


class AttemptLostError(Exception):
    """The outcome of a step is unknown, or another attempt is newer: continue with a new producer."""


class TransactionalProducer(Protocol):
    """A transactional producer and the marker of its name."""

    @property
    def reusable_marker(self) -> Marker | None:
        """The marker that this producer committed last, if it can be used for another transaction without ``init``."""

    def open(self) -> None: ...
    def init(self) -> None: ...
    def read(self, outputs: Sequence[Output]) -> Marker | None: ...
    def begin(self) -> None: ...
    def produce(self, outputs: Sequence[Output]) -> None: ...
    def mark(self, sequence: int, outputs: Sequence[Output]) -> None: ...
    def commit(self) -> None: ...


class ExactlyOnceProtocol:
    """The append of one sequence; ``advance`` executes ``step``, the next step."""

    def __init__(
        self, producer: TransactionalProducer, identity: ProducerIdentity, sequence: int, outputs: Sequence[Output]
    ) -> None:
        self.producer = producer
        self.identity = identity
        self.sequence = sequence
        self.outputs = outputs
        self.step: Step = "open"
        marker = producer.reusable_marker
        if marker is not None:
            # If another producer has committed since, this one is fenced; otherwise its own marker is the newest.
            self.step = "end" if is_published(marker, identity, sequence) else "begin"

    @property
    def is_done(self) -> bool:
        return self.step == "end"

    def advance(self) -> None:
        """Execute the next step; after a lost attempt, the next step is ``open`` again."""
        try:
            self.step = getattr(self, f"_{self.step}")()
        except AttemptLostError:
            self.step = "open"
            raise

    def _open(self) -> Step:
        self.producer.open()
        return "init"

    def _init(self) -> Step:
        self.producer.init()
        return "read"

    def _read(self) -> Step:
        marker = self.producer.read(self.outputs)
        return "end" if is_published(marker, self.identity, self.sequence) else "begin"

    def _begin(self) -> Step:
        self.producer.begin()
        return "produce"

    def _produce(self) -> Step:
        self.producer.produce(self.outputs)
        return "mark"

    def _mark(self) -> Step:
        self.producer.mark(self.sequence, self.outputs)
        return "commit"

    def _commit(self) -> Step:
        self.producer.commit()
        return "end"
