"""Shuffle files: how the tasks of one Spark job on one host exchange shuffle data without a Spark stage per level.

A sender writes one file per level, with a slice for each receiver, after the state that the data comes from is
committed. A file may therefore be lost or written again, and is never synced. Each job has its own directory, which the
driver deletes when the job has ended; tasks that are still waiting then stop.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

_MIN_POLL_SECONDS, _MAX_POLL_SECONDS = 0.0003, 0.005
_FAILED = "failed"

_Slice = list[tuple[int, bytes]]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Slice).decode


class AbandonedError(Exception):
    """The job has failed in another task, or has ended."""


class NotStartedError(Exception):
    """Another task of the job has not started, perhaps because it waits for the slot of this one."""


class ShuffleFiles:
    """The shuffle files of one job, as one of its ``width`` tasks sees them.

    It waits ``patience`` seconds for tasks that have not started; for those that have, until the job ends.
    """

    def __init__(self, directory: Path, width: int, patience: float) -> None:
        self._directory = directory
        self._width = width
        self._offsets = struct.Struct(f"<{width + 1}Q")
        self._patience = patience

    def take_slot(self, index: int, preferred: int | None) -> int:
        """Take a slot that no other task of the job has, if possible the preferred one.

        The other tasks know then that the task of this slot has started. A second attempt of the task with the same
        index gets the same slot.
        """
        content = b"%d" % index
        claim = self._write(f".index.{index}", content)
        by_preference = sorted(range(self._width), key=lambda slot: (slot != preferred, slot != index))
        try:
            for slot in by_preference:
                if self._started(slot).exists() and self._started(slot).read_bytes() == content:
                    return slot
            for slot in by_preference:
                with suppress(FileExistsError):
                    self._started(slot).hardlink_to(claim)
                    return slot
        except FileNotFoundError as error:
            raise AbandonedError from error
        raise NotStartedError  # two attempts of one task have started at the same time, and took a slot each

    def _started(self, slot: int) -> Path:
        return self._directory / f"started.{slot}"

    def mark_failed(self) -> None:
        """Make all other tasks stop waiting, whether they have started or not."""
        self._write(_FAILED, b"")

    def write(self, level: int, sender: int, slices: Mapping[int, _Slice], receivers: int) -> None:
        """Write the shuffle data of a level by receiver, also if there is none."""
        parts = [_encode(slices.get(receiver, ())) for receiver in range(receivers)]
        ends = [self._offsets.size]
        for part in parts:
            ends.append(ends[-1] + len(part))
        ends += [ends[-1]] * (self._offsets.size // 8 - len(ends))
        self._write(f"{level}.{sender}", self._offsets.pack(*ends) + b"".join(parts))

    def read(self, level: int, senders: int, receiver: int) -> Iterator[tuple[int, bytes]]:
        """Wait for all senders of a level and yield what they have for a receiver."""
        for sender in range(senders):
            path = self._directory / f"{level}.{sender}"
            self._wait_for(str(path), sender)
            try:
                with path.open("rb") as file:
                    ends = self._offsets.unpack(file.read(self._offsets.size))
                    file.seek(ends[receiver])
                    yield from _decode(file.read(ends[receiver + 1] - ends[receiver]))
            except FileNotFoundError as error:
                raise AbandonedError from error

    def _wait_for(self, path: str, sender: int) -> None:
        failed, started = str(self._directory / _FAILED), str(self._started(sender))
        deadline, pause = time.monotonic() + self._patience, _MIN_POLL_SECONDS
        while not os.path.exists(path):  # noqa: PTH110 - a fifth of the cost of Path.exists, in a loop that polls
            if os.path.exists(failed) or not self._directory.exists():  # noqa: PTH110
                raise AbandonedError
            if time.monotonic() > deadline and not os.path.exists(started):  # noqa: PTH110
                raise NotStartedError
            time.sleep(pause)
            pause = min(_MAX_POLL_SECONDS, pause * 1.2)

    def _write(self, name: str, data: bytes) -> Path:
        temporary = self._directory / f".{name}.{os.getpid()}"
        try:
            temporary.write_bytes(data)
            return temporary.rename(self._directory / name)
        except FileNotFoundError as error:
            raise AbandonedError from error
