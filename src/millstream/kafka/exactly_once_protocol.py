"""Publishing a sequence exactly once: the steps, and why at most one attempt commits.

A commit needs the newest epoch of the transactional id; the epoch comes with ``init``; the marker is read after it. If
another attempt committed before our ``init``, we see its marker and skip. If it comes to ``init`` after us, we are
fenced and begin again. Whatever we cannot be sure about ends with a new producer, never with a guess.

The steps know nothing of the client, so that a model can run them in every possible order (tests/kafka/test_model.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from millstream.broker import Output
from millstream.kafka.marker import Identity, Marker, is_published

Step = Literal["open", "init", "read", "begin", "produce", "mark", "commit", "end"]


class AttemptLostError(Exception):
    """The outcome of a step is not known, or another attempt is newer: only a new producer can go on."""


class Transactions(Protocol):
    """One transactional producer, and the marker of its name."""

    @property
    def kept(self) -> Marker | None:
        """The marker that this producer has committed itself, if it may be used for the next transaction as it is."""

    def open(self) -> None: ...
    def init(self) -> None: ...
    def read(self, outputs: Sequence[Output]) -> Marker | None: ...
    def begin(self) -> None: ...
    def produce(self, outputs: Sequence[Output]) -> None: ...
    def mark(self, sequence: int, outputs: Sequence[Output]) -> None: ...
    def commit(self) -> None: ...


class Publication:
    """One sequence on its way; ``advance`` does one step, ``step`` is the next one."""

    def __init__(
        self, transactions: Transactions, identity: Identity, sequence: int, outputs: Sequence[Output]
    ) -> None:
        self.transactions = transactions
        self.identity = identity
        self.sequence = sequence
        self.outputs = outputs
        self.step: Step = "open"
        kept = transactions.kept
        if kept is not None:
            # Nobody can have committed since, or our producer is fenced: what it committed itself is the marker.
            self.step = "end" if is_published(kept, identity, sequence) else "begin"

    @property
    def is_done(self) -> bool:
        return self.step == "end"

    def advance(self) -> None:
        """Do the next step; after a lost attempt the next one is to begin again."""
        try:
            self.step = getattr(self, f"_{self.step}")()
        except AttemptLostError:
            self.step = "open"
            raise

    def _open(self) -> Step:
        self.transactions.open()
        return "init"

    def _init(self) -> Step:
        self.transactions.init()
        return "read"

    def _read(self) -> Step:
        marker = self.transactions.read(self.outputs)
        return "end" if is_published(marker, self.identity, self.sequence) else "begin"

    def _begin(self) -> Step:
        self.transactions.begin()
        return "produce"

    def _produce(self) -> Step:
        self.transactions.produce(self.outputs)
        return "mark"

    def _mark(self) -> Step:
        self.transactions.mark(self.sequence, self.outputs)
        return "commit"

    def _commit(self) -> Step:
        self.transactions.commit()
        return "end"
