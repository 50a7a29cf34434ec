"""What a task tells about a batch."""

from __future__ import annotations

import msgspec


class TaskReport(msgspec.Struct, kw_only=True):
    """Figures of one task and one batch; ``version`` is the batch up to which its state now goes."""

    task: int
    version: int = 0
    commit: str = ""
    records_in: int = 0
    records_out: int = 0
    dropped: dict[str, int] = {}
    """By node and reason, ``words: null_key``."""
    dead_letters: int = 0
    stream_time: int = -1
    rows: dict[str, int] = {}
    """Rows of each table."""
    seconds: float = 0.0
    replayed: bool = False
    """The batch had been processed before; only its results were served again."""
