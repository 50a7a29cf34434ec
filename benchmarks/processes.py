"""The processes of a program: which there are, and what they cost. Linux only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

_TICKS = os.sysconf("SC_CLK_TCK")


def process_tree(root: int) -> list[int]:
    """Return the ids of a process and all its descendants."""
    pids = [root]
    with suppress(OSError):  # it ends meanwhile
        for task in Path(f"/proc/{root}/task").glob("*/children"):
            for child in task.read_text().split():
                pids += process_tree(int(child))
    return pids


def memory_megabytes(pid: int, field: Literal["Pss", "Private_Dirty"]) -> float:
    """Return the memory of a process, 0 if it has ended."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    kibibytes = sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith(f"{field}:"))
    return kibibytes * 1024 / 1e6


def cpu_seconds(roots: Sequence[int]) -> float:
    """Return the processor time of processes and their descendants, including those that have ended."""
    return sum(process_cpu_seconds(pid) for root in roots for pid in process_tree(root))


def process_cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and of its children that have ended, 0 if it has ended itself."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / _TICKS


def kind_of(pid: int) -> str:
    """Return which process of an app it is."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return "ended"
    if Path(command[0]).name == "java":
        return "JVM"
    if "millstream.serve" in " ".join(command):
        return "dashboard"
    return "worker" if "daemon" in " ".join(command) else "driver"
