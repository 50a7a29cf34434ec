"""The report of a task about a batch."""

from __future__ import annotations

import msgspec

from millstream.operators.probe import Measured


class TaskReport(msgspec.Struct, kw_only=True):
    """Metrics of one task and one batch; ``version`` is the last batch that its state contains."""

    task: int
    stage: str = ""
    """Empty if the task had nothing to do."""
    partition: int = 0
    version: int = 0
    round: int = 0
    commit: str = ""
    ranges: int = 0
    """How many ranges of topics the task has read."""
    records_in: int = 0
    records_out: int = 0
    dropped: dict[str, int] = {}
    """By node and reason, ``words: null_key``."""
    dead_letters: int = 0
    value_errors: dict[str, int] = {}
    """Errors in expressions of SQL, whose values are null: by node and column."""
    error_samples: dict[str, str] = {}
    """For some of these nodes and columns the last error."""
    stream_time: int = -1
    rows: dict[str, int] = {}
    """Rows of each store."""
    oldest: int | None = None
    """The earliest timestamp among the first records of the chunks that the task has read, as the topics store it."""
    bytes: dict[str, int] = {}
    """Size of each store on disk."""
    timers: dict[str, int] = {}
    """For each step with timers, the wall-clock time at which the next one is due."""
    seconds: float = 0.0
    publish_seconds: float = 0.0
    """Time to append the outbox to its topics, after the commit."""
    restore_seconds: float = 0.0
    """Time to restore the state from the checkpoint, on a host that did not have it."""
    measured: Measured | None = None
    """Records and time of each step, if this batch was one of the few that are measured."""
    host: str = ""
    """The host that ran the task, on a cluster."""
    replayed: bool = False
    """The batch had been processed before; only its stored results were published again."""

    @property
    def name(self) -> str:
        """The stable name of the task, which does not change when other stages are added or removed."""
        return f"{self.stage}/{self.partition}"

    @property
    def late(self) -> int:
        """Records that were too late for their window or join."""
        return sum(count for reason, count in self.dropped.items() if reason.endswith(": late"))
