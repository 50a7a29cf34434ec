"""When and in which order a topic is cleaned: retention, then compaction or merging."""

from __future__ import annotations

import logging
import threading
from time import time_ns
from typing import TYPE_CHECKING

from millstream.errors import MillstreamError
from millstream.foundation.storage import FileLock
from millstream.log.compaction import compact, is_worthwhile
from millstream.log.merging import merge
from millstream.log.retention import expire

if TYPE_CHECKING:
    from millstream.log.snapshot import Snapshot
    from millstream.log.topic import Topic

_log = logging.getLogger(__name__)


def clean(topic: Topic, now: int | None = None, *, thorough: bool = True) -> bool:
    """Clean every partition; False if another process is at it.

    Unless ``thorough``, a compacted partition is only compacted when enough of it is new.
    """
    today = time_ns() // 1_000_000
    now = today if now is None else now
    lock = FileLock(topic.directory / "clean.lock")
    if not lock.acquire():
        return False
    try:
        topic.clear_stale_readers()
        topic.update(lambda snapshot: _start_counting(snapshot, topic.config.partitions, today))
        for partition in range(topic.config.partitions):
            expire(topic, partition, now)
            if topic.config.compact and (thorough or is_worthwhile(topic, partition)):
                compact(topic, partition, now)
            else:
                merge(topic, partition)
    finally:
        lock.release()
    return True


def _start_counting(snapshot: Snapshot, partitions: int, now: int) -> None:
    for partition in range(partitions):
        bounds = snapshot.bounds(partition)
        if bounds.end:
            snapshot.put_bounds(partition, bounds._replace(new_blobs=0, cleaned=now))


class Sweeper:
    """Cleans topics in the background, each at most once at a time, so that no append waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, threading.Thread] = {}

    def sweep(self, topic: Topic) -> None:
        """Clean ``topic`` soon, unless that is going on already."""
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
        """Wait for what is going on."""
        with self._lock:
            threads = list(self._running.values())
        for thread in threads:
            thread.join()
