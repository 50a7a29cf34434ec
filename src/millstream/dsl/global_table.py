"""The handle of a global table."""

from __future__ import annotations

from millstream.dsl.handle import Handle
from millstream.foundation.type_variables import K, V


class GlobalTable(Handle[K, V]):
    """A table whose rows every task can see; a stream can be joined with it by any key."""
