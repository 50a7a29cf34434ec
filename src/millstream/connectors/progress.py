"""How far a batch is that is sent record by record, so that a restart does not send all of it again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from millstream.connect.protocols import Rejected, SinkBatch
from millstream.foundation.small_file import read_file, replace_file


class _Stored(msgspec.Struct, kw_only=True):
    lineage: str = ""
    number: int = 0
    done: int = 0
    """How many records of the batch are sent or rejected."""
    rejected: dict[int, str] = msgspec.field(default_factory=dict)
    """The rows of rejected records, with the reasons."""
    is_sending: bool = False
    """Whether the next record was handed to the target, and the answer is not known."""


class SinkProgress:
    """The progress of the current batch of one sink, in the sink's own directory."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "progress.json"
        self._stored = read_file(self._path, _Stored) or _Stored()

    def begin(self, batch: SinkBatch) -> int:
        """Return how many records of a batch are done."""
        if (self._stored.lineage, self._stored.number) != (batch.lineage, batch.number):
            self._stored = _Stored(lineage=batch.lineage, number=batch.number)
        return self._stored.done

    @property
    def is_in_doubt(self) -> bool:
        """Whether the next record may have been sent."""
        return self._stored.is_sending

    def sending(self) -> None:
        """Store that the next record is handed to the target, before that is done."""
        self._stored.is_sending = True
        self._write(sync=True)

    def not_sent(self) -> None:
        """Store that the target did not take the record."""
        self._stored.is_sending = False
        self._write()

    def done(self, *, rejected: str | None = None) -> None:
        """Store that the next record is sent, or rejected for a reason."""
        if rejected is not None:
            self._stored.rejected[self._stored.done] = rejected
        self._stored.done += 1
        self._stored.is_sending = False
        self._write()

    def rejections(self, batch: SinkBatch) -> list[Rejected]:
        """Return the rejected records of the batch, also those from before a restart."""
        return [Rejected(batch.records[row], error) for row, error in self._stored.rejected.items()]

    def _write(self, *, sync: bool = False) -> None:
        replace_file(self._path, msgspec.json.encode(self._stored), sync=sync)
