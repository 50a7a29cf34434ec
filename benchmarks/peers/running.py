"""Run the programs to be measured: start them, watch them, and stop them with all their child processes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import cpu_seconds

_STOP_SECONDS = 20.0


class SideFailedError(Exception):
    """A program exited or timed out; the message contains the end of its output."""


@dataclass(frozen=True)
class Task:
    """The task of a program: count the rides of one topic and write the counts to another."""

    bootstrap: str
    source: str
    target: str
    group: str
    """The name of the program and of its consumer group."""
    directory: Path
    """A directory for its state and log."""


class Command(NamedTuple):
    """The command and the environment of one process of a program."""

    arguments: Sequence[str]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Side:
    """A program in one of its variants, and how to measure it."""

    name: str
    variant: str
    guarantee: str
    """As configured, not as tested."""
    commands: Callable[[Task], Sequence[Command]]
    """Prepare its prerequisites and return the commands to start at the same time."""
    max_records: int | None = None
    """Slow programs process only the start of the backlog."""
    commits: bool = True
    """Whether its group commits offsets, which show whether it has read all records."""
    quiet_seconds: float = 5.0
    """The program is done when it has written nothing for this long."""

    def records(self, available: int) -> int:
        """Return how many of the available rides it processes."""
        return min(available, self.max_records or available)


class Run:
    """The running processes of a side."""

    def __init__(self, side: Side, task: Task) -> None:
        task.directory.mkdir()
        commands = side.commands(task)
        self._log = task.directory / "log"
        self.started_at = time.perf_counter()
        with self._log.open("ab") as log:
            self._processes = [
                subprocess.Popen(
                    command.arguments,
                    env=command.environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # so that its child processes can be killed with it
                )
                for command in commands
            ]

    def is_alive(self) -> bool:
        """Return whether all processes are running."""
        return all(process.poll() is None for process in self._processes)

    def cpu_seconds(self) -> float:
        """Return the CPU time used so far."""
        return cpu_seconds([process.pid for process in self._processes])

    def failure(self, reason: str) -> SideFailedError:
        """Return an error with the reason and the end of the output."""
        return SideFailedError(f"{reason}: {self._log.read_text(errors='replace')[-2000:]}")

    def stop(self) -> None:
        """Terminate all processes, and kill them and their children if they do not exit."""
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
    """Run a side for the duration of the block."""
    run = Run(side, task)
    try:
        yield run
    finally:
        run.stop()
