"""How user functions that combine values are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from millstream.functions import Function

Step: TypeAlias = Callable[[Any, Any, Any], Any]
"""(key, old value or None, value) → new value, None to delete the row."""


def with_key(function: Function) -> Step:
    """Return a function of (key, old, value), whether it wants the key or not."""
    call = function.call
    return call if function.arity == 3 else lambda _key, old, value: call(old, value)
