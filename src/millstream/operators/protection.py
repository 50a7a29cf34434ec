"""Keep what user functions may change in place from being seen half changed.

An aggregate is an object in memory. A function that changes it and then raises, or whose old result is still needed,
must get a copy; where neither can happen it gets the object itself, which costs nothing.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any

from millstream.foundation.object_codec import value_codec
from millstream.operators.runtime import Runtime, Step
from millstream.plan.node import Node

FIXED = frozenset(
    {int, float, str, bytes, bool, type(None), decimal.Decimal, datetime.datetime, datetime.date, datetime.timedelta}
)
"""Types whose objects cannot change."""


def protected(step: Step, node: Node, runtime: Runtime, *, always: bool = False) -> Step:
    """Return ``step`` so that the aggregate it is given may be changed, whatever becomes of the result.

    That matters if the app goes on after an error, if readers are told old values, or if ``always`` says so.
    """
    is_ready = getattr(node, "ready", None) is not None
    if is_ready or not (always or runtime.goes_on or node in runtime.plan.sending_old):
        return step
    codec = value_codec(runtime.plan.declared[node].value)
    encode, decode = codec.encode, codec.decode

    def careful(key: Any, aggregate: Any, value: Any) -> Any:
        return step(key, aggregate if type(aggregate) in FIXED else decode(encode(aggregate)), value)

    return careful
