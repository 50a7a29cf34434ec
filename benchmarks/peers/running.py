"""Programs that are measured: started from outside, watched, and ended with all that they have started."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_STOP_SECONDS = 20.0
_TICKS = os.sysconf("SC_CLK_TCK")


class DidNotEndError(Exception):
    """A program died, or takes too long; what it has said is in the text."""


@dataclass(frozen=True)
class Task:
    """What a program is asked to do: to count the rides of one topic into another."""

    bootstrap: str
    source: str
    target: str
    group: str
    """Its name, which is that of its consumer group."""
    place: Path
    """A directory of its own."""


class Command(NamedTuple):
    """How one process of a program is started."""

    arguments: Sequence[str]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Side:
    """A program in one of its variants, and how it has to be measured."""

    name: str
    variant: str
    guarantee: str
    """As configured, not as tested."""
    commands: Callable[[Task], Sequence[Command]]
    """Make ready what it needs and return what has to be started, all at the same time."""
    most_records: int | None = None
    """A slow one takes the beginning of the backlog only."""
    commits: bool = True
    """Whether its group commits offsets, by which one can see that it has read everything."""
    quiet_seconds: float = 5.0
    """How long it has to be silent, or is waited for after the last ride, until it is taken to be done."""

    def records(self, given: int) -> int:
        """Return how many rides it takes of those given."""
        return min(given, self.most_records or given)


class Run:
    """The processes of a side at work."""

    def __init__(self, side: Side, task: Task) -> None:
        task.place.mkdir()
        commands = side.commands(task)
        self._log = task.place / "log"
        self.began = time.perf_counter()
        with self._log.open("ab") as log:
            self._processes = [
                subprocess.Popen(
                    command.arguments,
                    env=command.environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # so that all that it starts can be ended with it
                )
                for command in commands
            ]

    def is_alive(self) -> bool:
        """Whether none of the processes has ended."""
        return all(process.poll() is None for process in self._processes)

    def processor_seconds(self) -> float:
        """Return the processor time that was used so far."""
        return processor_seconds([process.pid for process in self._processes])

    def failed(self, what: str) -> DidNotEndError:
        """Build the error, with the last lines that were printed."""
        return DidNotEndError(f"{what}: {self._log.read_text(errors='replace')[-2000:]}")

    def end(self) -> None:
        """Ask all processes to end, and see to it that nothing of them is left."""
        for process in self._processes:
            process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def running(side: Side, task: Task) -> Iterator[Run]:
    """Let a side work for as long as the block."""
    run = Run(side, task)
    try:
        yield run
    finally:
        run.end()


def processor_seconds(roots: Sequence[int]) -> float:
    """Return the processor time that processes and all below them have used, with those that have ended."""
    children: dict[int, list[int]] = defaultdict(list)
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            children[int(fields[1])].append(int(entry.name))
            used[int(entry.name)] = sum(map(int, fields[11:15])) / _TICKS
    waiting, total = [*roots], 0.0
    while waiting:
        process = waiting.pop()
        total += used.get(process, 0.0)
        waiting += children[process]
    return total
