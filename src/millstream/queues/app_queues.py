"""The queues of an app: share consumers and workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

from millstream.durations import Duration
from millstream.foundation.loading import check_not_loading
from millstream.foundation.type_variables import R, TextKey, Value
from millstream.queues.worker import Worker
from millstream.records import Record
from millstream.serdes import SerdeLike

if TYPE_CHECKING:
    from millstream.broker import Broker
    from millstream.queues.share_consumer import Acknowledge, OnAcknowledged, ShareConsumer, Start
    from millstream.queues.worker_pool import WorkUntil


class ShareConsumerOptions(TypedDict, total=False):
    """Options of ``ShareConsumer`` beside its group, topics and serdes."""

    acknowledge: Acknowledge
    lock: Duration
    max_deliveries: int
    start: Start
    timeout: Duration | float | None
    dead_letter_topic: str | None
    on_decode_error: Literal["dead_letter", "fail"]
    on_acknowledged: OnAcknowledged | None


class WorkerOptions(TypedDict, total=False):
    """Options of a worker beside its topics, group and serdes."""

    concurrency: int
    lock: Duration
    max_deliveries: int
    start: Start
    retry: Duration
    max_retry: Duration


class AppQueues:
    """What an app has for queues."""

    id: str
    workers: list[Worker]
    """The workers that were declared, in order."""

    @property
    def broker(self) -> Broker:
        """The log or Kafka cluster that the queues are on."""
        raise NotImplementedError

    def share_consumer(
        self,
        group: str,
        *,
        topics: str | Sequence[str] = (),
        key: SerdeLike[TextKey] = None,
        value: SerdeLike[Value] = None,
        **options: Unpack[ShareConsumerOptions],
    ) -> ShareConsumer[TextKey, Value]:
        """Return a consumer that takes single records as jobs, shared with the other members of its group."""
        from millstream.queues.share_consumer import ShareConsumer

        return ShareConsumer(self.broker, group, topics=topics, key=key, value=value, **options)

    def worker(
        self,
        topics: str | Sequence[str],
        *,
        group: str,
        key: SerdeLike[TextKey] = None,
        value: SerdeLike[Value] = None,
        **options: Unpack[WorkerOptions],
    ) -> Callable[[Callable[[Record[TextKey, Value]], R]], Callable[[Record[TextKey, Value]], R]]:
        """Declare a function that is called with each record of topics, as a job of a share group.

        If it returns, the job is done. If it raises, the job is delivered again after a delay that grows, at most
        ``max_deliveries`` times; then, and if it raises ``Reject``, it becomes a dead letter. While it runs, the lock
        is renewed. ``millstream work FILE`` or ``app.work()`` runs the workers, without Spark.

        >>> from millstream import App
        >>> app = App("mail")
        >>> @app.worker("jobs", group="mailers", concurrency=8)
        ... def send_mail(job):
        ...     print(job.value)
        >>> [worker.group for worker in app.workers]
        ['mailers']
        """
        names = (topics,) if isinstance(topics, str) else tuple(topics)

        def declare(work: Callable[[Record[TextKey, Value]], R]) -> Callable[[Record[TextKey, Value]], R]:
            self.workers.append(Worker(work=work, topics=names, group=group, key=key, value=value, **options))
            return work

        return declare

    def work(self, until: WorkUntil = "stopped") -> None:
        """Run the workers in threads until stopped (Ctrl-C), or with ``until="idle"`` until no job is left."""
        check_not_loading("work")
        from millstream.queues.worker_pool import WorkerPool

        broker = self.broker
        try:
            with WorkerPool(broker, self.id, self.workers) as pool:
                pool.run(until)
        finally:
            broker.close()
