"""What a task is asked to do in a batch."""

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
    """Records that a task of another stage sent over an edge."""

    edge: str
    sender: int
    data: bytes


class Work(msgspec.Struct, frozen=True):
    """One task and one batch: what to read, and from which version to go on."""

    task: int
    batch: int
    wall_time: int
    expected: StateVersion
    ranges: tuple[Range, ...] = ()
    arrivals: tuple[ShuffleInput, ...] = ()
    has_timer: bool = False
    """A timer is due, so that the task has to run although nothing may have come in."""
    stream_time: int = -1
    """The stream time that the task has at least."""
    tick: int = -1
    """The time that has come although the inputs are idle; -1 if it follows them."""
    global_tables: dict[str, tuple[int, ...]] = {}
    """For the topic of each global table the offsets up to which it is read."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.ranges and not self.arrivals and not self.has_timer and self.tick < 0
