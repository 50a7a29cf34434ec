"""What a user has paused in an app, and what its batches leave out because of it.

A pause is a request in a file, which any process can write and which survives a restart. The process that plans batches
looks at it before each of them: it plans nothing for the topics of what is paused, so their positions, the state behind
them, its stream time and its timers stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from millstream.errors import StateError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import paused_file
from millstream.foundation.small_file import read_file, replace_file
from millstream.plan.connected import independent_parts, topics_of
from millstream.plan.layout import Layout

StopKind = Literal["paused", "terminated"]
_NOTHING: frozenset[str] = frozenset()
_LOCK_SECONDS = 5.0


class StoppedQuery(msgspec.Struct, frozen=True):
    """A query that is paused or terminated, and the topics that are not read because of it."""

    kind: StopKind
    topics: tuple[str, ...]


class Pauses(msgspec.Struct, frozen=True, kw_only=True):
    """What is paused in an app."""

    is_app_paused: bool = False
    queries: Mapping[str, StoppedQuery] = {}

    @property
    def topics(self) -> frozenset[str]:
        """The topics that queries do not read."""
        return frozenset(topic for query in self.queries.values() for topic in query.topics)


def read_pauses(state_dir: Path) -> Pauses:
    """Return what is paused in the app with this state directory."""
    return read_file(paused_file(state_dir), Pauses) or Pauses()


def change_pauses(state_dir: Path, change: Callable[[Pauses], Pauses]) -> Pauses:
    """Change what is paused in an app and return it; it survives a power cut once this returns."""
    path = paused_file(state_dir)
    lock = FileLock(path.with_suffix(".lock"))
    if not lock.acquire(_LOCK_SECONDS):
        raise StateError(f"another process is changing {path}", hint="try again")
    try:
        before = read_pauses(state_dir)
        changed = change(before)
        if changed != before:
            replace_file(path, msgspec.json.encode(changed), sync=True)
        return changed
    finally:
        lock.release()


def forget_removed(state_dir: Path, queries: Mapping[str, tuple[str, ...]]) -> Pauses:
    """Forget requests for queries that an app no longer has, and follow those that read other topics now."""

    def change(pauses: Pauses) -> Pauses:
        stopped = pauses.queries.items()
        kept = {name: StoppedQuery(query.kind, queries[name]) for name, query in stopped if name in queries}
        return msgspec.structs.replace(pauses, queries=kept)

    return change_pauses(state_dir, change) if read_pauses(state_dir) != Pauses() else Pauses()


class PausedInputs:
    """The topics and tasks that the next batch leaves out, by the latest requests."""

    def __init__(self, layout: Layout, state_dir: Path) -> None:
        self._layout = layout
        self._state_dir = state_dir
        self._path = paused_file(state_dir)
        self._version: tuple[int, int] | None = None
        self._pauses = Pauses()
        self._tasks = _NOTHING

    def without_paused(self, topics: Collection[str]) -> Collection[str]:
        """Return the topics that are read."""
        self._refresh()
        if self._pauses.is_app_paused:
            return ()
        paused = self._pauses.topics
        return [topic for topic in topics if topic not in paused] if paused else topics

    @property
    def tasks(self) -> frozenset[str]:
        """The names of the tasks that must not run, also for their timers."""
        self._refresh()
        return self._tasks

    def _refresh(self) -> None:
        """Read the requests again if they have changed; each of them is a new file."""
        try:
            status = self._path.stat()
            version = status.st_ino, status.st_mtime_ns
        except FileNotFoundError:
            version = None
        if version != self._version:
            self._version, self._pauses = version, read_pauses(self._state_dir)
            self._tasks = self._paused_tasks()

    def _paused_tasks(self) -> frozenset[str]:
        stages, paused = self._layout.partitions_by_stage, self._pauses.topics
        if not self._pauses.is_app_paused:
            if not paused:
                return _NOTHING
            parts = (part for part in independent_parts(self._layout.plan.nodes) if paused & set(topics_of(part)))
            nodes = {node for part in parts for node in part}
            named = {stage.name for stage in self._layout.plan.stages if not nodes.isdisjoint(stage.heads)}
            stages = {name: count for name, count in stages.items() if name in named}
        return frozenset(f"{name}/{partition}" for name, count in stages.items() for partition in range(count))
