"""When batches begin, and in which gears they may run."""

from __future__ import annotations

from typing import Literal, Self, get_args

import msgspec

from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError

Trigger = Literal["auto", "realtime"]


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """What ``run`` is told: a trigger, or an interval between the begins of batches."""

    trigger: Trigger = "auto"
    every_seconds: float = 0.0

    @classmethod
    def of(cls, trigger: Trigger = "auto", every: Duration | None = None) -> Self:
        """Check and combine both."""
        if trigger not in get_args(Trigger):
            raise DefinitionError(f"trigger={trigger!r} is not valid", hint='use "auto" or "realtime", or every="10 s"')
        if every is None:
            return cls(trigger=trigger)
        if trigger == "realtime":
            raise DefinitionError(f'trigger="realtime" and every={every!r} exclude each other', hint="choose one")
        seconds = milliseconds(every) / 1000
        if seconds <= 0:
            raise DefinitionError(f"every={every!r} is not valid", hint='leave it out, or use every="10 s"')
        return cls(every_seconds=seconds)
