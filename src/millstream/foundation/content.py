"""What an environment holds: stored in it, so that a file that was put in the position of another one is an error.

Two environments can have databases of the same name, and one that is opened for writing gets the databases that it
lacks. Without its content, a journal in the position of a table would be an empty table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from millstream.foundation.checked import with_checksum, without_checksum
from millstream.foundation.damage import damaged

CONTENT_KEY = b"millstream-content"

CATALOG = "the catalog of a log"
TOPIC = "a topic"
SHARE_GROUPS = "share groups"
JOURNAL = "a journal"
SOURCE_JOURNAL = "the journal of a source"
SOURCE_ROWS = "the rows of a source"
TASK_STATE = "the state of a task"
ALERT_RULES = "alert rules"


def copy_of_table(name: str) -> str:
    """Return the content of a copy of a global table."""
    return f"a copy of global table {name!r}"


def read_content(directory: Path, txn: Any) -> str | None:
    """Return what an environment holds; None of one that was created by an earlier version or without content."""
    stored = txn.get(CONTENT_KEY)
    return None if stored is None else without_checksum(CONTENT_KEY, stored, directory).decode()


def write_content(txn: Any, content: str) -> None:
    """Store what an environment holds."""
    txn.put(CONTENT_KEY, with_checksum(CONTENT_KEY, content.encode()))


def check_content(directory: Path, stored: str | None, expected: str) -> None:
    """Raise if an environment holds something else than expected."""
    if stored not in (None, expected):
        raise damaged(directory / "data.mdb", f"it holds {stored}, not {expected}: another file is in its position")
