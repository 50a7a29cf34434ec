"""The environment of a processor under test: real stores and timers, and a current record that the test sets."""

from __future__ import annotations

import contextlib
import shutil
import struct
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar

from millstream.foundation.storage import open_environment
from millstream.plan.node import Node
from millstream.plan.stages import HISTORY
from millstream.records import Headers
from millstream.serdes import Serde
from millstream.state.keyvalue import KeyValueStore
from millstream.state.timed import TimedStore
from millstream.state.timers import Timers
from millstream.state.versioned import VersionedStore

S = TypeVar("S")
MEMORY = Path("/dev/shm")  # noqa: S108  # a private directory is created in it


def scratch_directory() -> Path:
    """Create a private directory, in memory if possible."""
    return Path(tempfile.mkdtemp(prefix="millstream-", dir=MEMORY if MEMORY.is_dir() else None))


class BenchContext:
    """The current record or punctuation."""

    def __init__(self) -> None:
        self.topic, self.partition, self.offset = "", -1, -1
        self.stream_time = self.timestamp = -1
        self.headers: Headers = ()

    @property
    def has_headers(self) -> bool:
        return bool(self.headers)

    def override_headers(self, headers: Headers | None) -> Headers:
        """Forward records with other headers."""
        saved, self.headers = self.headers, headers or ()
        return saved

    def restore_headers(self, saved: Headers) -> None:
        """Undo ``override_headers``."""
        self.headers = saved

    def suspend(self, now: int) -> dict[str, Any]:
        """Have no current record while a timer runs."""
        suspended = dict(vars(self))
        self.topic, self.partition, self.offset, self.timestamp, self.headers = "", -1, -1, now, ()
        return suspended

    def resume(self, suspended: dict[str, Any]) -> None:
        """Return to the record before ``suspend``."""
        vars(self).update(suspended)


class Bench:
    """A test bench: stands in for the task of a processor."""

    global_tables: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    @property
    def plan(self) -> Self:
        """The plan, which processors only ask for global tables; here the context provides those."""
        return self

    def __init__(self, app: str, partition: int, wall_time: int, databases: tuple[str, ...]) -> None:
        self.app, self.task_name, self.partition = app, f"test/{partition}", partition
        self.wall_time = wall_time
        self.context = BenchContext()
        self.timers = Timers(None, wall_time)
        self.ends: list[Callable[[], None]] = []
        self._stores: dict[str, Any] = {}
        self._directory = scratch_directory()
        self._environment = open_environment(self._directory, databases, sync=False)
        self._exit_stack = contextlib.ExitStack()
        self._txn = self._exit_stack.enter_context(self._environment.write())

    def close(self) -> None:
        """Delete all state."""
        self._exit_stack.close()
        self._environment.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def open_store(self, name: str, codec: Serde) -> KeyValueStore:
        return self._open(name, lambda: KeyValueStore(self._txn, self._database(name), codec, name))

    def open_timed_store(self, name: str, codec: Serde, layout: struct.Struct, retention: int) -> TimedStore:
        return self._open(name, lambda: TimedStore(self._txn, self._database(name), codec, layout, retention))

    def open_versioned_store(self, name: str, codec: Serde, history: int) -> VersionedStore:
        databases = self._database(name), self._database(f"{name}.{HISTORY}")
        return self._open(name, lambda: VersionedStore(self._txn, *databases, codec, history, name))

    def handle_error(self, _node: Node, error: Exception, _key: Any) -> None:
        raise error

    def _open(self, name: str, create: Callable[[], S]) -> S:
        if name not in self._stores:
            self._stores[name] = create()
        store: S = self._stores[name]
        return store

    def _database(self, name: str) -> Any:
        return self._environment.databases[name]
