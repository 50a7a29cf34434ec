"""When and in which order a topic is cleaned: retention, then compaction or merging."""

from __future__ import annotations

import logging
import threading
from time import time_ns
from typing import TYPE_CHECKING

from millstream.errors import MillstreamError
from millstream.foundation.file_lock import FileLock
from millstream.log.compaction import compact, needs_compaction
from millstream.log.merging import merge
from millstream.log.retention import expire

if TYPE_CHECKING:
    from millstream.log.snapshot import Snapshot
    from millstream.log.topic import Topic

_log = logging.getLogger(__name__)


def clean(topic: Topic, now: int | None = None, *, thorough: bool = True) -> bool:
    """Clean every partition; return False if another process is cleaning the topic.

    Unless ``thorough``, a partition of a compacted topic is only compacted if enough of its records are new.
    """
    wall_time = time_ns() // 1_000_000
    now = wall_time if now is None else now
    lock = FileLock(topic.directory / "clean.lock")
    if not lock.acquire():
        return False
    try:
        topic.clear_stale_readers()
        topic.update(lambda snapshot: _mark_cleaned(snapshot, topic.config.partitions, wall_time))
        for partition in range(topic.config.partitions):
            expire(topic, partition, now)
            if topic.config.compact and (thorough or needs_compaction(topic, partition)):
                compact(topic, partition, now)
            else:
                merge(topic, partition)
    finally:
        lock.release()
    return True


def _mark_cleaned(snapshot: Snapshot, partitions: int, now: int) -> None:
    for partition in range(partitions):
        bounds = snapshot.bounds(partition)
        if bounds.end:
            snapshot.put_bounds(partition, bounds._replace(new_blobs=0, cleaned=now))


class BackgroundCleaner:
    """Cleans topics in background threads, one per topic, so that appends do not wait for cleaning."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, threading.Thread] = {}

    def start(self, topic: Topic) -> None:
        """Start cleaning ``topic`` unless it is already being cleaned."""
        with self._lock:
            if topic.id not in self._running:
                thread = threading.Thread(target=self._run, args=(topic,), name=f"clean-{topic.name}", daemon=True)
                self._running[topic.id] = thread
                thread.start()

    def _run(self, topic: Topic) -> None:
        try:
            clean(topic, thorough=False)
        except (MillstreamError, OSError) as error:
            _log.warning("log.cleaning_failed topic=%s error=%s", topic.name, error)
        finally:
            with self._lock:
                self._running.pop(topic.id, None)

    def close(self) -> None:
        """Wait for running threads."""
        with self._lock:
            threads = list(self._running.values())
        for thread in threads:
            thread.join()
