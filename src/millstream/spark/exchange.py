"""How the tasks of one Spark job hand letters to each other on one host: by files, which costs no Spark stage.

A sender writes one file for each level, with a slice for each receiver, after the state that its letters come from is
committed. So a file may be lost or written again; it is never synced. Each job has a directory of its own, which the
driver removes when the job has ended: to those who still wait this means that nobody needs them any more.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

_SHORTEST_NAP, _LONGEST_NAP = 0.0003, 0.005
_FAILED = "failed"

_Slice = list[tuple[int, bytes]]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Slice).decode


class AbandonedError(Exception):
    """The job has failed elsewhere, or has ended."""


class NotAllHereError(Exception):
    """Another task of the job has not begun, perhaps since it waits for the slot of this one."""


class Exchange:
    """The files of one job, as one of its ``width`` tasks sees them.

    For ``patience`` seconds it waits for others that have not begun; for those that have, until the job ends.
    """

    def __init__(self, directory: Path, width: int, patience: float) -> None:
        self._directory = directory
        self._offsets = struct.Struct(f"<{width + 1}Q")
        self._patience = patience

    def begin(self, index: int) -> None:
        """Say that this task has begun."""
        self._write(f"begun.{index}", b"")

    def fail(self) -> None:
        """Tell all others not to wait, whether they have begun or not."""
        self._write(_FAILED, b"")

    def post(self, level: int, sender: int, slices: Mapping[int, _Slice], receivers: int) -> None:
        """Leave letters of a level, by receiver; also if there are none."""
        parts = [_encode(slices.get(receiver, ())) for receiver in range(receivers)]
        ends = [self._offsets.size]
        for part in parts:
            ends.append(ends[-1] + len(part))
        ends += [ends[-1]] * (self._offsets.size // 8 - len(ends))
        self._write(f"{level}.{sender}", self._offsets.pack(*ends) + b"".join(parts))

    def collect(self, level: int, senders: int, receiver: int) -> Iterator[tuple[int, bytes]]:
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
        failed, begun = str(self._directory / _FAILED), str(self._directory / f"begun.{sender}")
        until, nap = time.monotonic() + self._patience, _SHORTEST_NAP
        while not os.path.exists(path):  # noqa: PTH110 - a fifth of the cost of Path.exists, in a loop that waits
            if os.path.exists(failed) or not self._directory.exists():  # noqa: PTH110
                raise AbandonedError
            if time.monotonic() > until and not os.path.exists(begun):  # noqa: PTH110
                raise NotAllHereError
            time.sleep(nap)
            nap = min(_LONGEST_NAP, nap * 1.2)

    def _write(self, name: str, data: bytes) -> None:
        beside = self._directory / f".{name}.{os.getpid()}"
        try:
            beside.write_bytes(data)
            beside.rename(self._directory / name)
        except FileNotFoundError as error:
            raise AbandonedError from error
