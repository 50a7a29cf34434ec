"""Run workers in threads: each thread takes a job, calls the function and answers.

A thread has a consumer of its own, which is one member of the group. While a function runs, another thread renews the
lock on its job, so that a job may take longer than the lock; a process that dies loses its locks at once.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from millstream.broker import SupportsShareGroupAdmin, SupportsSharing, TopicConfig
from millstream.durations import milliseconds
from millstream.errors import BrokerUnavailableError, DefinitionError, LockLostError, MillstreamError, TopicExistsError
from millstream.queues.share_consumer import ShareConsumer
from millstream.queues.worker import Reject, Worker
from millstream.records import Record, TopicPartition

if TYPE_CHECKING:
    from millstream.broker import Broker

WorkUntil: TypeAlias = Literal["stopped", "idle"]

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.5
_RETRY_SECONDS = 1.0
_UNKNOWN_IDLE_SECONDS = 5.0  # Kafka does not say whether jobs wait, and a member gets its first jobs after a while


class WorkerPool:
    """The threads of an app's workers in this process."""

    def __init__(self, broker: Broker, app: str, workers: Sequence[Worker]) -> None:
        if not workers:
            raise DefinitionError(f"app {app!r} has no workers", hint="declare one with @app.worker")
        if not isinstance(broker, SupportsSharing):
            raise DefinitionError(f"{broker.url!r} has no share groups", hint="use the embedded log or Kafka")
        self._broker = broker
        self._can_renew = broker.can_renew_locks
        self._stopping = threading.Event()
        self._error: Exception | None = None
        _create_topics(broker, workers)
        self._slots = [_WorkerThread(broker, worker) for worker in workers for _ in range(worker.concurrency)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for slot in self._slots:
            slot.close()

    def stop(self) -> None:
        """Take no more jobs; those that run are finished."""
        self._stopping.set()

    def run(self, until: WorkUntil = "stopped") -> None:
        """Work until ``stop``, Ctrl-C or SIGTERM; ``idle``: until no thread has or gets a job."""
        threads = [threading.Thread(target=self._work, args=(slot, until), daemon=True) for slot in self._slots]
        check_seconds = min(_POLL_SECONDS, *(slot.lock_seconds / 6 for slot in self._slots))
        with _stopped_by_signals(self._stopping):
            for thread in threads:
                thread.start()
            while alive := [thread for thread in threads if thread.is_alive()]:
                self._renew_locks()
                alive[0].join(check_seconds)
        if self._error is not None:
            raise self._error

    def _work(self, slot: _WorkerThread, until: WorkUntil) -> None:
        """Take jobs until the pool stops; an error of the broker ends the pool, unless it may pass."""
        idle_since = monotonic()
        patience = _POLL_SECONDS if isinstance(self._broker, SupportsShareGroupAdmin) else _UNKNOWN_IDLE_SECONDS
        while not self._stopping.is_set():
            try:
                if slot.work_once():
                    idle_since = monotonic()
                elif until == "idle" and self._is_idle() and monotonic() - idle_since >= patience:
                    return
            except BrokerUnavailableError as error:
                _log.warning("worker.broker_unavailable group=%s reason=%s", slot.worker.group, error)
                self._stopping.wait(_RETRY_SECONDS)
            except Exception as error:
                self._error = self._error or error
                self._stopping.set()

    def _is_idle(self) -> bool:
        """Whether no job runs, waits, or will be tried again; Kafka does not say whether one waits."""
        if any(slot.job is not None for slot in self._slots):
            return False
        if not isinstance(self._broker, SupportsShareGroupAdmin):
            return True
        groups = {slot.worker.group for slot in self._slots}
        partitions = [partition for name in groups for partition in self._broker.share_group(name).partitions]
        return all(partition.waiting == partition.in_flight == 0 for partition in partitions)

    def _renew_locks(self) -> None:
        if self._can_renew:
            for slot in self._slots:
                slot.renew_if_due()


class _WorkerThread:
    """One thread: its consumer, and the job that it runs."""

    def __init__(self, broker: Broker, worker: Worker) -> None:
        self.worker = worker
        self.job: Record[Any, Any] | None = None
        self._has_renewals = isinstance(broker, SupportsSharing) and broker.can_renew_locks
        self._renewed_at = monotonic()
        self.lock_seconds = milliseconds(worker.lock) / 1000
        self._guard = threading.Lock()  # the consumer is used by the thread of the job, and by the one that renews
        self.consumer: ShareConsumer[Any, Any] = ShareConsumer(
            broker,
            worker.group,
            topics=worker.topics,
            key=worker.key,
            value=worker.value,
            lock=worker.lock,
            max_deliveries=worker.max_deliveries,
            start=worker.start,
            on_acknowledged=self._log_refusal,
        )

    def close(self) -> None:
        """Leave the group; a job that still runs is delivered again."""
        with self._guard:
            self.consumer.close()

    def work_once(self) -> bool:
        """Take a job, run it and answer; False if there was none in time."""
        with self._guard:
            jobs = self.consumer.poll(timeout=_POLL_SECONDS, max_records=1)
            self.job = jobs[0] if jobs else None
            self._renewed_at = monotonic()
        if self.job is None:
            return False
        job, error = self.job, self._call(self.job)
        with self._guard:
            self.job = None
            self._answer(job, error)  # the next poll sends it
        return True

    def _call(self, job: Record[Any, Any]) -> Exception | None:
        try:
            self.worker.work(job)
        except Exception as error:
            return error
        except SystemExit as error:  # it would end this thread, and the lock on the job would be renewed forever
            return RuntimeError(f"the worker called sys.exit({error.code!r})")
        return None

    def _answer(self, job: Record[Any, Any], error: Exception | None) -> None:
        if error is None:
            self.consumer.accept(job)
            return
        position = f"{job.topic}[{job.partition}]@{job.offset}"
        deliveries = self.consumer.delivery_count(job)
        _log.warning(
            "worker.failed group=%s job=%s delivery=%d", self.worker.group, position, deliveries, exc_info=error
        )
        if isinstance(error, Reject):
            self.consumer.reject(job, error)
            return
        delay = timedelta(milliseconds=self.worker.delay_ms(deliveries))
        self.consumer.release(job, after=delay if self._has_renewals else None, error=error)

    def _log_refusal(self, _: TopicPartition, offsets: Sequence[int], error: MillstreamError | None) -> None:
        if error is not None:
            _log.warning("worker.answer_refused group=%s offsets=%s reason=%s", self.worker.group, offsets, error)

    def renew_if_due(self) -> None:
        """Renew the lock on the job when a third of it has passed."""
        if self.job is None or monotonic() - self._renewed_at < self.lock_seconds / 3:
            return
        with self._guard:
            if self.job is not None:
                self._renewed_at = monotonic()
                try:
                    self.consumer.renew(self.job)
                except LockLostError as lost:
                    _log.warning("worker.lock_lost group=%s reason=%s", self.worker.group, lost)


def _create_topics(broker: Broker, workers: Sequence[Worker]) -> None:
    existing = set(broker.topic_names())
    for topic in {topic for worker in workers for topic in worker.topics} - existing:
        with suppress(TopicExistsError):
            broker.create_topic(topic, TopicConfig())


@contextmanager
def _stopped_by_signals(stopping: threading.Event) -> Iterator[None]:
    """Stop on Ctrl-C and SIGTERM; a second Ctrl-C interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: object) -> None:
        if stopping.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
