"""Row messages in the order of the stream, grouped into runs of one table each, without being decoded yet.

Runs of the same topic keep their order. Runs of different topics may be written in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from millstream.connectors.change_data.changes import TableChanges
from millstream.connectors.change_data.relation import ReplicatedTable
from millstream.connectors.postgres_cdc.decoding import decode_changes
from millstream.connectors.postgres_cdc.outbox import Envelope

_DECODED_ROWS = 2048
"""Decoded at a time: the arrays of larger ones do not fit into the caches of the processor."""


class Mark(NamedTuple):
    """From a row on, all rows belong to this transaction."""

    row: int
    transaction: int
    time: int
    """Microseconds since 1970."""


class RowRun:
    """Consecutive row messages of one table."""

    __slots__ = ("marks", "messages", "relation", "topic", "transaction")

    def __init__(self, topic: str, relation: ReplicatedTable) -> None:
        self.topic = topic
        self.relation = relation
        self.messages: list[bytes] = []
        self.marks: list[Mark] = []
        self.transaction = -1

    def begin(self, transaction: int, time: int) -> None:
        """Let the next rows belong to another transaction."""
        self.transaction = transaction
        self.marks.append(Mark(len(self.messages), transaction, time))

    def changes(self) -> Iterator[TableChanges]:
        """Decode the messages."""
        counts = np.diff([*(mark.row for mark in self.marks), len(self.messages)])
        times = np.repeat(np.array([mark.time for mark in self.marks], np.int64), counts)
        transactions = np.repeat(np.array([mark.transaction for mark in self.marks], np.int64), counts)
        for start in range(0, len(self.messages), _DECODED_ROWS):
            rows = slice(start, start + _DECODED_ROWS)
            yield decode_changes(self.relation, self.messages[rows], times[rows], transactions[rows])


class TruncateRun(NamedTuple):
    """All rows of a table are removed."""

    topic: str
    relation: ReplicatedTable
    transaction: int
    time: int
    lsn: int


class MessageRun(NamedTuple):
    """A record that an application wrote into the log."""

    topic: str
    record: Envelope
    time: int


Run: TypeAlias = RowRun | TruncateRun | MessageRun


class Runs:
    """What was received and has not been decoded."""

    def __init__(self) -> None:
        self.all: list[Run] = []
        self._open: dict[str, RowRun] = {}

    def rows_of(self, topic: str, relation: ReplicatedTable) -> RowRun:
        """Return the run for the next row of a table."""
        run = self._open.get(topic)
        if run is None or run.relation is not relation:
            run = self._open[topic] = RowRun(topic, relation)
            self.all.append(run)
        return run

    def add(self, run: TruncateRun | MessageRun) -> None:
        self._open.pop(run.topic, None)
        self.all.append(run)

    def take(self) -> list[Run]:
        """Return all runs and forget them."""
        runs, self.all, self._open = self.all, [], {}
        return runs
