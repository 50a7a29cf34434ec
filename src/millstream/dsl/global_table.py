"""The handle of a global table."""

from __future__ import annotations

from millstream.dsl.handle import Handle


class GlobalTable(Handle):
    """A table of which every task sees all rows; streams are joined with it by any key."""
