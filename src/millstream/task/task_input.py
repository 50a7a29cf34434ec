"""The input of a task in one batch: what it reads and which state version it starts from."""

from __future__ import annotations

import msgspec

from millstream.state.task import StateVersion


class Range(msgspec.Struct, frozen=True, array_like=True):
    """Records ``start <= offset < stop`` of a topic's partition."""

    topic: str
    partition: int
    start: int
    stop: int


class ShuffleInput(msgspec.Struct, frozen=True, array_like=True):
    """Records that a task of another stage sent over a repartition edge."""

    edge: str
    sender: int
    data: bytes


class TaskInput(msgspec.Struct, frozen=True):
    """One task in one batch: what it reads, and the state version that it expects to continue from."""

    task: int
    batch: int
    wall_time: int
    expected: StateVersion
    ranges: tuple[Range, ...] = ()
    shuffle_inputs: tuple[ShuffleInput, ...] = ()
    has_timer: bool = False
    """A timer is due, so the task has to run even without records."""
    stream_time: int = -1
    """A lower bound for the task's stream time."""
    tick: int = -1
    """The stream time to advance to although the inputs are idle; -1 if stream time follows the records."""
    global_tables: dict[str, tuple[int, ...]] = {}
    """The offsets up to which each global table is read, by topic."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.ranges and not self.shuffle_inputs and not self.has_timer and self.tick < 0
