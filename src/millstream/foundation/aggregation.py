"""The base of ready-made aggregations, see ``millstream.aggregations``."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from millstream.foundation.object_codec import encode_key


class Aggregation(msgspec.Struct, frozen=True, tag=str.lower):
    """A way to aggregate values; ``add``, ``remove`` and ``merge`` return the new state."""

    cannot_remove: ClassVar[str] = ""
    """Why a value cannot be removed again; empty if it can."""

    def add(self, state: Any, value: Any, /) -> Any:
        raise NotImplementedError

    def remove(self, state: Any, value: Any, /) -> Any:
        """Remove a value that was added."""
        raise NotImplementedError(self.cannot_remove)

    def merge(self, earlier: Any, later: Any, /) -> Any:
        """Merge the states of two sessions, the earlier one first."""
        raise NotImplementedError

    def finish(self, state: Any) -> Any:
        """Return the result of a state, which is None if no value was added."""
        return state


def identity(value: Any) -> Any:
    """Return text and integers themselves, and the bytes of other values, since True == 1 == 1.0."""
    kind = type(value)
    return value if kind is str or kind is int else encode_key(value)
