"""Protect aggregates that user functions may change in place.

An aggregate is an object in memory. A function that changes it must get a copy if it may raise afterwards while the app
continues, or if the old aggregate is still needed. Otherwise it gets the object itself, which costs nothing.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any

from millstream.foundation.object_codec import value_codec
from millstream.operators.runtime import Runtime, Step
from millstream.plan.node import Node

IMMUTABLE_TYPES = frozenset(
    {int, float, str, bytes, bool, type(None), decimal.Decimal, datetime.datetime, datetime.date, datetime.timedelta}
)
"""Types whose objects cannot be changed in place."""


def may_change_in_place(node: Node, runtime: Runtime) -> bool:
    """Whether an aggregate is not needed as it was: the app ends at an error, and no reader gets old values."""
    return not (runtime.continues_on_error or node in runtime.plan.sending_old)


def protected(step: Step, node: Node, runtime: Runtime, *, always: bool = False) -> Step:
    """Return ``step``, with a copy of the aggregate if a change in place could be observed.

    That is the case if the app continues after an error, if readers get old values, or with ``always``.
    """
    is_ready = getattr(node, "ready", None) is not None
    if is_ready or (may_change_in_place(node, runtime) and not always):
        return step
    codec = value_codec(runtime.plan.declared[node].value)
    encode, decode = codec.encode, codec.decode

    def step_on_copy(key: Any, aggregate: Any, value: Any) -> Any:
        return step(key, aggregate if type(aggregate) in IMMUTABLE_TYPES else decode(encode(aggregate)), value)

    return step_on_copy
