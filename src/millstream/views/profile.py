"""Where the time of an app's batches goes, from samples of their stacks."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from millstream.batch.journal import Journal
from millstream.foundation.paths import journal_dir, profile_dir, state_dir
from millstream.task.profiler import USER_MARK, ProfileRequest, end_request, process_profiles, request_profile

_LATE_SECONDS = 3.0
"""How long to wait for processes that have not written their last samples."""
_POLL_SECONDS = 0.1

KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("publish", (" TaskCommitter.publish", " WriteBehind.publish", ".append_once", ".append")),
    ("decode", ("/task/inputs.py", "/task/decoding.py", "/foundation/record_decoding.py", "/task/timestamp_assigner")),
    ("read", (" TaskRun._from_topic", " TaskRun._from_edge")),
    ("commit", ("/task/task_changelog.py", "/batch/journal", "/batch/write_behind.py:flush")),
    ("state", ("millstream/state/", "/foundation/checked.py")),
    ("encode", ("/task/outbox.py", "/operators/sinks.py", "/task/shuffle_format.py")),
    ("steps", ("millstream/operators/", "/task/record_loop.py", "/task/merging.py")),
)
"""Kinds of work and parts of the labels of their frames; the first kind that occurs in a stack is its kind."""
_AROUND = (" TaskState.update", " Environment.update", " Environment.write")
"""The transaction around all the work of a task."""
USER, OTHER = "user functions", "other"


class FunctionTime(msgspec.Struct, frozen=True, kw_only=True):
    """How often a function of the app was seen: as the innermost of the app's functions, and anywhere in the stack."""

    function: str
    own: int
    total: int


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of all processes that run an app's batches."""

    app: str
    seconds: float
    processes: int
    samples: int
    """Samples of all processes, between batches too."""
    stacks: dict[str, int]
    steps: dict[str, float]
    """Seconds by step, in the latest batches that were measured step by step."""

    @property
    def in_batches(self) -> int:
        """Samples during batches."""
        return sum(self.stacks.values())

    @property
    def kinds(self) -> dict[str, int]:
        """Samples by kind of work, the largest first."""
        sums: Counter[str] = Counter()
        for stack, count in self.stacks.items():
            sums[kind_of(stack)] += count
        return dict(sums.most_common())

    @property
    def functions(self) -> list[FunctionTime]:
        """The functions of the app, those with most samples first."""
        own: Counter[str] = Counter()
        total: Counter[str] = Counter()
        for stack, count in self.stacks.items():
            frames = [frame for frame in stack.split(";") if frame.endswith(USER_MARK)]
            for frame in set(frames):
                total[frame] += count
            if frames:
                own[frames[-1]] += count
        return [
            FunctionTime(function=frame.removesuffix(USER_MARK), own=own[frame], total=count)
            for frame, count in total.most_common()
        ]

    def collapsed(self) -> str:
        """Return a line for each stack, as tools for flame graphs read them."""
        return "".join(f"{stack} {count}\n" for stack, count in sorted(self.stacks.items()))


def take_profile(
    data_dir: Path,
    app: str,
    seconds: float,
    *,
    interval: float = 0.005,
    sleep: Callable[[float], None] = time.sleep,
) -> Profile:
    """Sample the batches of a running app for some seconds, in all its processes on this host."""
    directory = profile_dir(state_dir(data_dir, app))
    request = ProfileRequest(id=uuid.uuid4().hex, until=time.time() + seconds, interval=interval)
    request_profile(directory, request)
    try:
        sleep(seconds)
        deadline = time.time() + _LATE_SECONDS
        while not all(profile.is_complete for profile in process_profiles(directory, request.id)):
            if time.time() >= deadline:
                break
            sleep(_POLL_SECONDS)
        profiles = process_profiles(directory, request.id)
    finally:
        end_request(directory, request.id)
    stacks: Counter[str] = Counter()
    for profile in profiles:
        stacks.update(profile.stacks)
    return Profile(
        app=app,
        seconds=seconds,
        processes=len(profiles),
        samples=sum(profile.samples for profile in profiles),
        stacks=dict(stacks),
        steps=_seconds_by_step(data_dir, app),
    )


def _seconds_by_step(data_dir: Path, app: str) -> dict[str, float]:
    sums: Counter[str] = Counter()
    for measured in Journal(journal_dir(data_dir, app), readonly=True).history.steps().values():
        sums.update(measured.seconds)
    return dict(sums.most_common())


def kind_of(stack: str) -> str:
    """Return the kind of work that a stack belongs to.

    >>> kind_of("millstream/operators/select.py:9 process;shop/orders.py:12 clean [user];json/__init__.py:299 loads")
    'user functions'
    >>> kind_of("millstream/operators/tables.py:9 process;millstream/state/keyvalue.py:59 KeyValueStore.row")
    'state'
    """
    frames = stack.split(";")
    library_free = [frame for frame in frames if frame.startswith("millstream/") or frame.endswith(USER_MARK)]
    if library_free and library_free[-1].endswith(USER_MARK):
        return USER
    if library_free and _is_commit(library_free[-1]):
        return "publish" if "publish" in stack or "append" in stack else "commit"
    work = ";".join(frame for frame in library_free if not frame.endswith(_AROUND))
    for kind, marks in KINDS:
        if any(mark in work for mark in marks):
            return kind
    return OTHER


def _is_commit(frame: str) -> bool:
    """Whether a frame is the block at whose end LMDB commits."""
    return frame.startswith("millstream/foundation/storage.py:") and frame.endswith(" Environment.write")
