"""The order of Kafka Streams' test driver, which runs a whole topology as one task.

The inputs of that task are queues in a ``java.util.PriorityQueue``, ordered by the timestamps of their first records.
Where these are equal, the steps of that heap decide. Here each record becomes a batch of its own in the same order.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import NamedTuple

from millstream.batch.batch import Batch, Progress
from millstream.batch.execute import run_tasks
from millstream.batch.planner import Planner
from millstream.batch.timers import SharedTime
from millstream.broker import Broker
from millstream.plan.foreign_keys import ForeignKeyResult
from millstream.plan.layout import Layout
from millstream.plan.stateless import Repartition
from millstream.plan.writing import order_of_writing
from millstream.task.environment import TaskEnvironment
from millstream.task.report import TaskReport
from millstream.task.shuffle_format import single_records
from millstream.task.task_input import Range, ShuffleInput


class WaitingRecord(NamedTuple):
    """A record of a topic, or one that a task has sent to another."""

    timestamp: int
    range: Range | None = None
    receiver: int = -1
    sent: ShuffleInput | None = None


class WaitingRecords:
    """Records that wait for their turn, by input."""

    def __init__(self) -> None:
        self._queues: defaultdict[str, deque[WaitingRecord]] = defaultdict(deque)
        self._heap: list[str] = []

    def add(self, name: str, record: WaitingRecord) -> None:
        """Add a record to an input; one that was empty enters the heap."""
        queue = self._queues[name]
        queue.append(record)
        if len(queue) == 1:
            self._offer(name)

    def take(self) -> WaitingRecord | None:
        """Return the next record; its input enters the heap again if it has more."""
        if not self._heap:
            return None
        name = self._poll()
        record = self._queues[name].popleft()
        if self._queues[name]:
            self._offer(name)
        return record

    def _time(self, name: str) -> int:
        return self._queues[name][0].timestamp

    def _offer(self, name: str) -> None:
        """Insert an input as ``PriorityQueue.siftUp`` does."""
        heap = self._heap
        heap.append(name)
        index = len(heap) - 1
        while index > 0:
            parent = (index - 1) // 2
            if self._time(name) >= self._time(heap[parent]):
                break
            heap[index] = heap[parent]
            index = parent
        heap[index] = name

    def _poll(self) -> str:
        """Remove the first input as ``PriorityQueue.siftDown`` does."""
        heap = self._heap
        first, moved, index = heap[0], heap.pop(), 0
        while (child := 2 * index + 1) < len(heap):
            if child + 1 < len(heap) and self._time(heap[child]) > self._time(heap[child + 1]):
                child += 1
            if self._time(moved) <= self._time(heap[child]):
                break
            heap[index] = heap[child]
            index = child
        if heap:
            heap[index] = moved
        return first


class KafkaOrder:
    """Plans and runs batches of one record each, in the order of Kafka Streams' test driver."""

    def __init__(self, layout: Layout, broker: Broker, shared_time: SharedTime) -> None:
        self._layout = layout
        self._broker = broker
        self._shared_time = shared_time
        self._waiting = WaitingRecords()
        self._stops: dict[str, int] = {}
        """By topic the offset up to which its records wait or are processed."""
        self._next: WaitingRecord | None = None
        self._tasks = [task for level in range(layout.plan.levels) for task in layout.tasks_on(level)]
        written = order_of_writing(layout.plan.nodes)
        self._order = {edge.name: number for edge, number in written.items()}
        self._global_topics = layout.plan.global_tables

    @staticmethod
    def matters(layout: Layout) -> bool:
        """Whether a task has several inputs of which other tasks fill at least one.

        The answers of a foreign-key join have an order within a batch, so that its steps have to stay together.
        """
        stages = layout.plan.stages
        if any(isinstance(node, ForeignKeyResult) for node in layout.plan.nodes):
            return False
        filled = {topic for topic in layout.plan.sink_topics if any(stage.reads(topic) for stage in stages)}
        return set(layout.partitions) == {1} and any(
            len(stage.heads) > 1 and (filled or any(isinstance(head, Repartition) for head in stage.heads))
            for stage in stages
        )

    def plan(self, planner: Planner, progress: Progress) -> Batch | None:
        """Return the next batch: due timers, changes of global tables, or one record."""
        self._next = None
        timers = planner.choose(progress, [])
        if timers is not None:
            return timers
        if not self._shared_time.is_known:
            return planner.batch(progress)
        backlog = planner.backlog(progress)
        of_global_tables = [range_ for range_ in backlog if range_.topic in self._global_topics]
        if of_global_tables:
            return planner.batch(progress, of_global_tables)
        for range_ in backlog:
            self._add(range_)
        self._next = self._waiting.take()
        if self._next is None:
            return None
        return planner.batch(progress, [] if self._next.range is None else [self._next.range])

    def _add(self, range_: Range) -> None:
        topic = range_.topic
        start = max(range_.start, self._stops.get(topic, 0))
        for chunk in self._broker.read(topic, range_.partition, start, range_.stop):
            times = chunk.block.column(2).to_pylist()
            for offset, timestamp in zip(chunk.offsets, times, strict=True):
                single = Range(topic, range_.partition, int(offset), int(offset) + 1)
                self._waiting.add(topic, WaitingRecord(timestamp, range=single))
        self._stops[topic] = max(range_.stop, start)

    def run(self, env: TaskEnvironment, batch: Batch, progress: Progress) -> list[TaskReport]:
        """Run a batch; what its tasks send waits."""
        inputs: dict[int, list[ShuffleInput]] = {}
        if self._next is not None and self._next.sent is not None:
            inputs[self._next.receiver] = [self._next.sent]
        reports: list[TaskReport] = []
        outputs = run_tasks(
            env, batch, progress.versions, self._tasks, inputs, is_first=True, shared_time=self._shared_time
        )
        for report, sent in outputs:
            reports.append(report)
            for receiver, block in sorted(sent, key=lambda each: self._order[each[1].edge]):
                for timestamp, data in single_records(block.data):
                    single = ShuffleInput(block.edge, block.sender, data)
                    self._waiting.add(f"edge {block.edge}", WaitingRecord(timestamp, receiver=receiver, sent=single))
        return reports
