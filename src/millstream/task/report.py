"""What a task tells about a batch."""

from __future__ import annotations

import msgspec

from millstream.operators.probe import Measured


class TaskReport(msgspec.Struct, kw_only=True):
    """Figures of one task and one batch; ``version`` is the batch up to which its state now goes."""

    task: int
    stage: str = ""
    """Empty if the task had nothing to do."""
    partition: int = 0
    version: int = 0
    round: int = 0
    commit: str = ""
    records_in: int = 0
    records_out: int = 0
    dropped: dict[str, int] = {}
    """By node and reason, ``words: null_key``."""
    dead_letters: int = 0
    stream_time: int = -1
    rows: dict[str, int] = {}
    """Rows of each store."""
    bytes: dict[str, int] = {}
    """Size of each store on disk."""
    timers: dict[str, int] = {}
    """For each step with timers, when the wall clock has to call it next."""
    seconds: float = 0.0
    publish_seconds: float = 0.0
    """What it took to append the outbox to its topics, after the commit."""
    restore_seconds: float = 0.0
    """What it took to fetch the state from the checkpoint, on a host that did not have it."""
    measured: Measured | None = None
    """Where the records and the time went step by step, if this batch was one of the few that are measured."""
    replayed: bool = False
    """The batch had been processed before; only its results were served again."""

    @property
    def name(self) -> str:
        """The stable name of the task, which does not change when other stages come or go."""
        return f"{self.stage}/{self.partition}"

    @property
    def late(self) -> int:
        """Records that came too late for their window or join."""
        return sum(count for reason, count in self.dropped.items() if reason.endswith(": late"))
