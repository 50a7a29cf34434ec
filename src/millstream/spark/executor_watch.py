"""Notice that Spark has lost all executors for good, and stop it, so that the supervisor starts it again.

The driver of a standalone cluster does not register again with a master that has dropped it, because the network
between them was cut for a while or because the master was started again. It would wait for executors forever.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator

from pyspark import SparkContext

from millstream.batch.logs import log_event
from millstream.spark.hosts import executor_cores

_log = logging.getLogger(__name__)
_CHECK_SECONDS = 2.0
_DEFAULT_TIMEOUT = "120s"


class ExecutorWatch:
    """Stops Spark if there is no executor for twice the time after which a silent host is given up, during a batch."""

    def __init__(self, app: str, context: SparkContext) -> None:
        self._app = app
        self._context = context
        self._is_running = False
        self._patience = 2 * _network_timeout(context)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="millstream-executors", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def during_batch(self) -> Iterator[None]:
        """Watch as long as the block runs: an idle app needs no executors."""
        self._is_running = True
        try:
            yield
        finally:
            self._is_running = False

    def _watch(self) -> None:
        lost_at: float | None = None
        while not self._closing.wait(_CHECK_SECONDS):
            if not self._is_running or self._has_executors():
                lost_at = None
                continue
            lost_at = lost_at or time.monotonic()
            if time.monotonic() - lost_at >= self._patience:
                facts = {"app": self._app, "master": self._context.master, "seconds": round(self._patience)}
                log_event(_log, logging.WARNING, "all executors are lost, starting Spark again", facts)
                self._context.stop()  # the job fails, and the supervisor runs the batch on a new Spark
                return

    def _has_executors(self) -> bool:
        try:
            return bool(executor_cores(self._context))
        except Exception:  # Spark has stopped, which the batch notices
            return True

    def close(self) -> None:
        """Stop watching."""
        self._closing.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()


def _network_timeout(context: SparkContext) -> float:
    conf = context._jsc.sc().conf()
    return float(conf.getTimeAsSeconds("spark.network.timeout", _DEFAULT_TIMEOUT))
