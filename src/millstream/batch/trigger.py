"""When batches start, and in which execution modes they may run."""

from __future__ import annotations

from typing import Literal, Self, get_args

import msgspec

from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError

TriggerMode = Literal["auto", "realtime"]


class Trigger(msgspec.Struct, frozen=True, kw_only=True):
    """The ``trigger`` and ``every`` arguments of ``run``, checked."""

    mode: TriggerMode = "auto"
    every_seconds: float = 0.0
    """The interval at which batches start; 0: as soon as there are records."""

    @classmethod
    def of(cls, mode: TriggerMode = "auto", every: Duration | None = None) -> Self:
        """Check and combine both arguments."""
        if mode not in get_args(TriggerMode):
            raise DefinitionError(f"trigger={mode!r} is not valid", hint='use "auto" or "realtime", or every="10 s"')
        if every is None:
            return cls(mode=mode)
        if mode == "realtime":
            raise DefinitionError(f'trigger="realtime" and every={every!r} exclude each other', hint="choose one")
        seconds = milliseconds(every) / 1000
        if seconds <= 0:
            raise DefinitionError(f"every={every!r} is not valid", hint='leave it out, or use every="10 s"')
        return cls(every_seconds=seconds)
