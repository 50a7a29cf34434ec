"""A task during one batch: the runtime of its operators."""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from operator import attrgetter
from typing import Any

from millstream.errors import MillstreamError, ProcessingError, RecordTooLargeError, SerdeError
from millstream.foundation.blocks import lazy_rows_of
from millstream.foundation.error_headers import error_headers, source_timestamp_headers
from millstream.foundation.headers import headers_size
from millstream.foundation.text import error_text, shown
from millstream.foundation.transactions import Transaction
from millstream.operators.build import EntryPoint, build
from millstream.operators.runtime import Columns, EdgeColumns
from millstream.operators.sinks import edge_codec
from millstream.plan.histories import history_of
from millstream.plan.node import Node
from millstream.plan.processors import PROCESSORS
from millstream.plan.sources import Source
from millstream.plan.stages import BUFFER, HISTORY, part_name
from millstream.plan.stateless import Repartition
from millstream.records import Headers, Windowed
from millstream.serdes import JSON, READABLE, Serde
from millstream.state.appended import AppendedStore
from millstream.state.buffer import RecordBuffer
from millstream.state.keyvalue import KeyValueStore
from millstream.state.members import MemberStore
from millstream.state.task import TaskState
from millstream.state.timed import TimedStore
from millstream.state.timers import Timers
from millstream.state.versioned import VersionedStore
from millstream.state.windows import WindowStore
from millstream.task.current_record import CurrentRecord
from millstream.task.decoding import reading_serde
from millstream.task.environment import TaskEnvironment
from millstream.task.inputs import BlockFeed, CodedChunk, Decode, DecodedChunk, InputDecoder, Reject, TopicSerdes
from millstream.task.merging import merged
from millstream.task.origins import line_of
from millstream.task.outbox import Outbox
from millstream.task.policy import FailedRecordError, OnError, late_headers
from millstream.task.processing_log import write_processing_log
from millstream.task.record_loop import RecordLoop
from millstream.task.shuffle_format import shuffle_columns
from millstream.task.task_input import TaskInput
from millstream.task.timestamp_assigner import TimestampAssigner

_POLICY_HINT = 'on_error="dead_letter" or "skip" lets the app continue without such records'


class TaskRun:
    """Processes the inputs of one task inside one transaction."""

    def __init__(
        self, env: TaskEnvironment, task_input: TaskInput, state: TaskState, txn: Transaction, stream_time: int
    ) -> None:
        self.app = env.app
        self.plan = env.layout.plan
        self.caching = env.caching
        self.continues_on_error = env.policies.on_error != "fail"
        self.probe = env.sampling.probe(task_input)
        self.wall_time = task_input.wall_time
        self.context = CurrentRecord(stream_time, logs_errors=env.policies.processing_log is not None)
        self.outbox = Outbox()
        self.drops: Counter[str] = Counter()
        self.dead_letters = 0
        self.records_in = 0
        self.oldest: int | None = None
        """The earliest timestamp among the first records of chunks, as their topics store it."""
        self.latest_times = state.latest_times(txn)
        """The latest timestamp of each partition of a topic; only for sources that need it."""
        self.stores: dict[str, KeyValueStore | TimedStore | VersionedStore | RecordBuffer | MemberStore] = {}
        self._env = env
        self._input = task_input
        self._state = state
        self._txn = txn
        self._versions = 0
        self._stage, self.partition = env.stage(task_input.task)
        self.task_name = f"{self._stage.name}/{self.partition}"
        timed = [node.name or "" for node in self._stage.nodes if isinstance(node, PROCESSORS)]
        self.timers = Timers(state.timers(txn), task_input.wall_time, timed)
        self._copies: dict[str, KeyValueStore] = {}
        self._open = ExitStack()
        self._flushes: list[tuple[Node, Callable[[], None], bool]] = []
        self._time_listeners: list[tuple[Node, Callable[[int], None]]] = []

    # The runtime of operators

    def store(self, node: Node, codec: Serde, part: str = "") -> KeyValueStore:
        return self.open_store(part_name(node, part), codec)

    def open_store(self, name: str, codec: Serde) -> KeyValueStore:
        store = self.stores.get(name)
        if not isinstance(store, KeyValueStore):
            store = KeyValueStore(self._txn, self._state.database(name), codec, name)
            self.stores[name] = store
        return store

    def timed_store(
        self, node: Node, codec: Serde, layout: struct.Struct, retention: int, *, part: str = "", **kind: bool
    ) -> TimedStore:
        return self.open_timed_store(part_name(node, part), codec, layout, retention, **kind)

    def open_timed_store(
        self,
        name: str,
        codec: Serde,
        layout: struct.Struct,
        retention: int,
        *,
        exact: bool = False,
        appended: bool = False,
        **options: bool,
    ) -> TimedStore:
        store = self.stores.get(name)
        if not isinstance(store, TimedStore):
            kind = WindowStore if exact else AppendedStore if appended else TimedStore
            store = kind(self._txn, self._state.database(name), codec, layout, retention, **options)
            self.stores[name] = store
        return store

    def versioned_store(self, node: Node, codec: Serde) -> VersionedStore:
        history = history_of(node)
        assert history is not None
        return self.open_versioned_store(part_name(node, ""), codec, history)

    def open_versioned_store(self, name: str, codec: Serde, history: int) -> VersionedStore:
        store = self.stores.get(name)
        if not isinstance(store, VersionedStore):
            newest, older = self._state.database(name), self._state.database(f"{name}.{HISTORY}")
            store = self.stores[name] = VersionedStore(self._txn, newest, older, codec, history, name)
        return store

    def buffer(self, node: Node, codec: Serde) -> RecordBuffer:
        name = part_name(node, BUFFER)
        store = self.stores.get(name)
        if not isinstance(store, RecordBuffer):
            store = self.stores[name] = RecordBuffer(self._txn, self._state.database(name), codec)
        return store

    def member_store(self, node: Node, part: str) -> MemberStore:
        name = part_name(node, part)
        store = self.stores.get(name)
        if not isinstance(store, MemberStore):
            store = self.stores[name] = MemberStore(self._txn, self._state.database(name))
        return store

    def next_version(self) -> list[int]:
        self._versions += 1
        return [self._input.batch, self._stage.round, self._versions]

    def global_table(self, topic: str) -> KeyValueStore:
        if topic not in self._copies:
            copy = self._env.global_table(topic)
            self._copies[topic] = self._open.enter_context(copy.reading(self._input.global_tables.get(topic, ())))
        return self._copies[topic]

    def to_topic(self, topic: str) -> Columns:
        return self._outgoing(f"{self._env.policies.output_prefix}{topic}")

    def _outgoing(self, topic: str) -> Columns:
        if topic not in self.outbox.topics:
            self.outbox.topics[topic] = self._columns(topic)
        return self.outbox.topics[topic]

    def _columns(self, topic: str) -> Columns:
        config = self._env.topic(topic)
        return Columns(config.max_record_bytes, needs_key=config.compact, partitions=config.partitions)

    def to_edge(self, edge: Node) -> EdgeColumns:
        assert edge.name is not None
        return self.outbox.edges.setdefault(edge.name, EdgeColumns())

    def on_flush(self, node: Node, flush: Callable[[], None], *, last: bool = False) -> None:
        self._flushes.append((node, flush if self.probe is None else self.probe.timed(node, flush), last))

    def on_time_advance(self, node: Node, advance_time: Callable[[int], None]) -> None:
        if self._input.tick >= 0 and node not in self.plan.waiting:
            self._time_listeners.append((node, advance_time))

    def send_late(self, node: Node, topic: str, windows: Sequence[Windowed] = ()) -> None:
        columns, (key, value) = self.to_topic(topic), self.context.raw
        headers = (*self.context.source_headers, *late_headers(node, self.context, windows))
        size = len(key or b"") + len(value or b"") + headers_size(headers)
        if size > columns.max_record_bytes:
            error = RecordTooLargeError.of(topic, size, columns.max_record_bytes)
            return self.handle_error(node, error, None)
        columns.keys.append(key)
        columns.values.append(value)
        columns.timestamps.append(self.context.timestamp)
        columns.set_headers(headers)
        return None

    def drop(self, node: Node, reason: str) -> None:
        self.drops[f"{node.name}: {reason}"] += 1

    def handle_error(self, node: Node, error: Exception, key: Any, timestamp: int | None = None) -> None:
        line = line_of(error)
        at_line = "" if line is None else f" ({line})"
        problem = ProcessingError(
            f"node {node.name!r} failed {self._location(key)}: {type(error).__name__}: {error_text(error)}{at_line}",
            hint=f"this part of the batch was not applied and runs again at the next start; {_POLICY_HINT}",
            node=node.name,
            topic=self.context.topic,
            partition=self.context.partition,
            offset=self.context.offset,
            line=line,
        )
        problem.__cause__ = error
        raw, headers = self.context.raw, self.context.source_headers
        self._apply_error_policy(self._env.policies.on_error, problem, node, raw, headers, timestamp)

    def _location(self, key: Any) -> str:
        return f"at {self.context}" if self.context.chunk is None else f"on {self.context} (key {shown(key):.60})"

    # Processing

    def process(self) -> None:
        """Call due timers, process all inputs in order, then forward the updates that caching deferred."""
        entry_points = build(self._stage, self)
        inputs = list(self._inputs(entry_points))
        self._call_due_timers()
        loop = RecordLoop([entry_point for entry_point, _ in inputs], self.context, self.timers)
        for records in merged([feed for _, feed in inputs], loop.min_slice):
            self.records_in += loop.process(records)
        self.context.leave()
        advances_time = self._input.tick > self.context.stream_time
        self._flush(last=not advances_time)
        if advances_time:
            self._advance_time(self._input.tick)
            self._flush(last=True)
        self._flush_stores()
        if self._env.policies.processing_log is not None and self.context.errors.logged:
            log = self._outgoing(self._env.policies.processing_log)
            write_processing_log(log, self.context.errors, self.wall_time)

    def close(self) -> None:
        """Close what was opened besides the task's own state; free rows without waiting for the garbage collector."""
        self._open.close()
        for store in self.stores.values():
            if not isinstance(store, RecordBuffer):  # it freed everything when it was written
                store.release()

    def _flush(self, *, last: bool) -> None:
        for _, flush, is_last in self._in_order(self._flushes):
            if last or not is_last:
                flush()

    def _in_order(self, entries: list[Any]) -> list[Any]:
        """Sort what nodes have registered, each entry with its node first, by the order of the nodes' definition."""
        if not entries[1:]:
            return entries  # in a small batch, numbering all nodes takes longer than what they do
        order = {node: number for number, node in enumerate(self.plan.nodes)}
        return sorted(entries, key=lambda entry: order[entry[0]])

    def _flush_stores(self) -> None:
        owners = {} if self.probe is None else self._stage.store_owners
        for name, store in self.stores.items():
            flush = store.flush
            if self.probe is not None and name in owners:
                flush = self.probe.timed(owners[name], flush)
            flush()

    def _advance_time(self, time: int) -> None:
        """Advance stream time without records, and call the operators and timers that wait for it."""
        self.context.stream_time = time
        for _, advance_time in self._in_order(self._time_listeners):
            advance_time(time)
        if self.timers.stream_due <= time:
            self.timers.fire("stream", time)

    def _call_due_timers(self) -> None:
        """Call timers that are due by the wall clock, or by stream time if the batch advances it."""
        if self.timers.wall_due <= self.wall_time:
            self.timers.fire("wall", self.wall_time)
        if self._input.stream_time >= 0:  # another round of the task may have advanced the time, without these timers
            self.context.stream_time = max(self.context.stream_time, self._input.stream_time)
            if self.timers.stream_due <= self.context.stream_time:
                self.timers.fire("stream", self.context.stream_time)

    def _inputs(self, entry_points: dict[Node, EntryPoint]) -> Iterator[tuple[EntryPoint, Iterator[DecodedChunk]]]:
        """Yield each input in the order of declaration: topics by partition, edges by sender."""
        for head in self._stage.inputs:
            if isinstance(head, Source):
                assigner = TimestampAssigner(head, self.wall_time, self.latest_times, self)
                decode = self._timed(
                    head,
                    InputDecoder(head.key, reading_serde(head, self.plan.readers), assigner.assign, self._reject(head)),
                )
                for topic in head.topics_among({range_.topic for range_ in self._input.ranges}):
                    yield entry_points[head], self._from_topic(topic, decode)
            else:
                declared = self.plan.declared[head]
                topic_serdes = declared.key or READABLE, declared.value or JSON
                codec = edge_codec(head, declared.value)
                decode = self._timed(head, InputDecoder(None, codec, None, self._reject(head), topic_serdes))
                for sent in self._by_sender(head):
                    yield entry_points[head], self._from_edge(head, sent, decode, topic_serdes)

    def _timed(self, head: Node, decoder: InputDecoder) -> Decode:
        return decoder.decode if self.probe is None else self.probe.timed(head, decoder.decode)

    def _from_topic(self, topic: str, decode: Decode) -> Iterator[DecodedChunk]:
        for range_ in self._input.ranges:
            if range_.topic == topic:
                for chunk in self._env.broker.read(topic, range_.partition, range_.start, range_.stop):
                    rows = lazy_rows_of(chunk.block)
                    self._note_age(rows.timestamps)
                    yield decode(topic, range_.partition, rows, chunk.offsets)

    def _note_age(self, timestamps: list[int]) -> None:
        if timestamps and (self.oldest is None or timestamps[0] < self.oldest):
            self.oldest = timestamps[0]

    def _by_sender(self, edge: Repartition) -> Iterable[list[bytes]]:
        """Return what each task sent over an edge, in the order of its rounds: a task's records keep their order."""
        sent: defaultdict[int, list[bytes]] = defaultdict(list)
        for data in sorted(self._input.shuffle_inputs, key=attrgetter("sender")):
            if data.edge == edge.name:
                sent[self._env.stage(data.sender)[1]].append(data.data)
        return sent.values()

    def _from_edge(self, edge: Repartition, sent: list[bytes], decode: Decode, topic_serdes: TopicSerdes) -> BlockFeed:
        def decode_block(data: bytes) -> DecodedChunk:
            columns = shuffle_columns(data)
            if columns.values is None:
                return CodedChunk(edge.name or "", self.partition, columns, topic_serdes)
            return decode(edge.name or "", self.partition, columns.rows(), range(len(columns.times)))

        return BlockFeed(sent, decode_block)

    # Errors

    def _reject(self, head: Node) -> Reject:
        def reject(chunk: DecodedChunk, row: int, error: SerdeError) -> None:
            self.records_in += 1
            self.context.enter(chunk)
            self.context.row = row
            raw, headers = chunk.raw(row), chunk.headers(row)
            self._apply_error_policy(self._env.policies.on_decode_error, error, head, raw, headers)

        return reject

    def skip(self, source: Source, reason: str) -> None:
        self.records_in += 1
        self.drop(source, reason)

    def reject_timestamp(self, source: Source, chunk: DecodedChunk, row: int, error: Exception) -> None:
        self.records_in += 1
        self.context.enter(chunk)
        self.context.row = row
        self.handle_error(source, error, chunk.keys[row])

    def _apply_error_policy(
        self,
        policy: OnError,
        error: MillstreamError,
        node: Node,
        raw: tuple[bytes | None, bytes | None],
        headers: Headers,
        timestamp: int | None = None,
    ) -> None:
        policies = self._env.policies
        if policy == "fail":
            if not policies.dead_letter_on_fail:
                raise error
            columns = self._columns(policies.dead_letter_topic)
            self._write_dead_letter(columns, error, node, raw, headers, timestamp)
            raise FailedRecordError(error, policies.dead_letter_topic, columns)
        self.drop(node, "error")
        if policy == "dead_letter":
            self.dead_letters += 1
            columns = self._outgoing(policies.dead_letter_topic)
            self._write_dead_letter(columns, error, node, raw, headers, timestamp)

    def _write_dead_letter(
        self,
        columns: Columns,
        error: MillstreamError,
        node: Node,
        raw: tuple[bytes | None, bytes | None],
        headers: Headers,
        timestamp: int | None,
    ) -> None:
        """Write the source record with the timestamp that it had at the node, as Kafka Streams does."""
        context = self.context
        columns.keys.append(raw[0])
        columns.values.append(raw[1])
        columns.timestamps.append(context.timestamp if timestamp is None else timestamp)
        reasons = error_headers(
            error, context.topic, context.partition, context.offset, self._stage.name, node.name or ""
        )
        moved = () if timestamp in (None, context.timestamp) else source_timestamp_headers(context.timestamp)
        columns.set_headers((*headers, *reasons, *moved))
