"""The handle of a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from millstream.dsl.alert_verbs import AlertVerbs
from millstream.dsl.batched_verbs import BatchedVerbs
from millstream.dsl.grouped import GroupedStream
from millstream.dsl.handle import Handle
from millstream.dsl.splitter import Splitter
from millstream.dsl.stateless_verbs import StatelessVerbs
from millstream.dsl.stream_joins import StreamJoins
from millstream.dsl.table import Table
from millstream.durations import Duration
from millstream.errors import DefinitionError
from millstream.foundation.type_variables import K2, V2, K, R, V
from millstream.functions import AnyFunction, ContextFunction, PairFunction, Partitioner, ValueFunction, by_arity
from millstream.plan.histories import checked_history
from millstream.plan.node import Node
from millstream.plan.processors import Process, ProcessValues
from millstream.plan.sinks import ConnectorSink, Sink, SparkSink
from millstream.plan.stateful import ToTable
from millstream.plan.stateless import Repartition, SelectKey
from millstream.plan.topology import SinkStep, SparkDelivery
from millstream.processors import Factory, Processor, checked
from millstream.serdes import SerdeLike, serde_for

if TYPE_CHECKING:
    from millstream.connect.protocols import Sink as ConnectorProtocol


class SinkOptions(TypedDict, total=False):
    """Options of ``to`` for its overloads."""

    key: SerdeLike
    value: SerdeLike
    timestamp: AnyFunction | None
    name: str | None


class Stream(StatelessVerbs[K, V], BatchedVerbs[K, V], StreamJoins[K, V], AlertVerbs[K, V]):
    """Records as independent facts.

    Functions take ``(value)``, ``(key, value)`` or ``(key, value, context)``; null keys and values are None.
    """

    def _changes(self) -> Node:
        return self._node

    def split(self) -> Splitter[K, V]:
        """Split the stream by predicates: ``.branch(predicate, use).default(use)``.

        >>> app = App("doc")
        >>> (app.stream("n", value=int).split()
        ...     .branch(lambda n: n < 0, lambda negative: negative.to("out"))
        ...     .default(lambda others: others.map_values(lambda n: n * 100).to("out")))
        >>> outputs(app, n=[-1, 2])
        [(None, -1), (None, 200)]
        """
        return Splitter(self)

    def repartition(
        self,
        partitions: int | None = None,
        *,
        key: SerdeLike = None,
        value: SerdeLike = None,
        name: str | None = None,
    ) -> Stream[K, V]:
        """Move each record to the task of its key, over ``partitions`` tasks if given.

        Records without key are dropped and counted. Groupings and joins repartition by themselves where needed.
        """
        node = Repartition(
            source=self._node, partitions=partitions, key=serde_for(key), value=serde_for(value), name=name
        )
        return Stream(self._draft, node)

    @overload
    def group_by(
        self, mapper: ValueFunction[V, R | None], *, key: SerdeLike[R] = None, name: str | None = None
    ) -> GroupedStream[R, V]: ...
    @overload
    def group_by(
        self, mapper: PairFunction[K, V, R | None], *, key: SerdeLike[R] = None, name: str | None = None
    ) -> GroupedStream[R, V]: ...
    @overload
    def group_by(
        self, mapper: ContextFunction[K, V, R | None], *, key: SerdeLike[R] = None, name: str | None = None
    ) -> GroupedStream[R, V]: ...
    def group_by(self, mapper: AnyFunction, *, key: SerdeLike = None, name: str | None = None) -> GroupedStream:
        """Group by the key that ``mapper`` returns; records for which it is None are dropped.

        >>> app = App("doc")
        >>> app.stream("w", value=str).group_by(lambda w: w[0]).count().to_stream().to("out")
        >>> outputs(app, w=["mill", "stream", "mud"])
        [('m', 1), ('s', 1), ('m', 2)]
        """
        function = by_arity("group_by", mapper)
        return GroupedStream(self._draft, SelectKey(source=self._node, mapper=function, key=serde_for(key), name=name))

    def group_by_key(self) -> GroupedStream[K, V]:
        """Group by the current key; repartitions only if an earlier verb may have changed it."""
        return GroupedStream(self._draft, self._node)

    def to_table(
        self,
        *,
        key: SerdeLike = None,
        value: SerdeLike = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table[K, V]:
        """Make each record the current row of its key; a null value deletes the row, null keys are dropped.

        With ``history`` earlier rows are kept for that long, as in ``app.table``.

        >>> app = App("doc")
        >>> app.stream("n", value=int).select_key(lambda n: n % 2).to_table(name="last").to_stream().to("out")
        >>> outputs(app, n=[1, 2, 3])
        [('1', 1), ('0', 2), ('1', 3)]
        """
        node = ToTable(
            source=self._node,
            key=serde_for(key),
            value=serde_for(value),
            name=name,
            named=name is not None,
            history=checked_history("to_table", history),
        )
        return Table(self._draft, node)

    def process(
        self,
        processor: Factory[Processor[K, V, K2, V2]],
        *,
        key: SerdeLike = None,
        value: SerdeLike = None,
        name: str | None = None,
    ) -> Stream[K2, V2]:
        """Pass each record to a ``Processor``, which can keep state in stores and forward any records.

        ``processor`` is the class, or a function without arguments that creates an object of it. Marks the stream as
        re-keyed, as ``map`` does. The processor gets every record, also those with null keys and values.

        >>> from millstream import Processor, key_value_store
        >>> class Numbered(Processor):
        ...     stores = {"seen": key_value_store()}
        ...     def process(self, record):
        ...         seen = self.context.store("seen")
        ...         seen.put("n", seen.get("n", 0) + 1)
        ...         self.context.forward(record, key=seen["n"])
        >>> app = App("doc")
        >>> app.stream("w", value=str).process(Numbered).to("out")
        >>> outputs(app, w=["a", "b"])
        [('1', 'a'), ('2', 'b')]
        """
        facts = checked("process", processor, Processor)
        node = Process(source=self._node, key=serde_for(key), value=serde_for(value), name=name, **facts)
        return Stream(self._draft, node)

    def process_values(
        self, processor: Factory[Processor[K, V, Any, V2]], *, value: SerdeLike = None, name: str | None = None
    ) -> Stream[K, V2]:
        """Pass each record to a ``Processor`` that keeps the key, so that no repartitioning follows.

        It can forward only while it processes a record, and only with that record's key.
        """
        facts = checked("process_values", processor, Processor)
        return Stream(self._draft, ProcessValues(source=self._node, value=serde_for(value), name=name, **facts))

    @overload
    def to(
        self,
        topic: str | ValueFunction[V, str],
        *,
        partitioner: Partitioner[K, V] | None = None,
        **options: Unpack[SinkOptions],
    ) -> None: ...
    @overload
    def to(
        self,
        topic: PairFunction[K, V, str],
        *,
        partitioner: Partitioner[K, V] | None = None,
        **options: Unpack[SinkOptions],
    ) -> None: ...
    @overload
    def to(
        self,
        topic: ContextFunction[K, V, str],
        *,
        partitioner: Partitioner[K, V] | None = None,
        **options: Unpack[SinkOptions],
    ) -> None: ...
    def to(
        self,
        topic: str | AnyFunction,
        *,
        key: SerdeLike = None,
        value: SerdeLike = None,
        partitioner: AnyFunction | None = None,
        timestamp: AnyFunction | None = None,
        name: str | None = None,
    ) -> None:
        """Write each record to a topic, given by name or computed by a function of the record.

        Unless types were declared, keys are written as text, or as JSON if they are not text, windowed keys as Kafka
        Streams writes them, and values as JSON. The key decides the partition. A ``partitioner`` gets the key, the
        value and the number of partitions, and returns a partition, several of them, or None for that of the key.
        ``timestamp`` computes the time of the record in the topic; a record without a valid one is dropped and counted.
        Exactly-once: the records of a batch appear once, even after failures.
        """
        target = topic if isinstance(topic, str) else by_arity("to", topic)
        partitions = None if partitioner is None else by_arity("to", partitioner, {3: "(key, value, partitions)"})
        node = Sink(
            source=self._node,
            topic=target,
            key=serde_for(key),
            value=serde_for(value),
            partitioner=partitions,
            timestamp=None if timestamp is None else by_arity("to", timestamp),
            name=name,
        )
        self._draft.add(node)

    def to_spark(
        self,
        function: Callable[[Any, int, str], Any] | Callable[[Any, int], Any],
        *,
        name: str,
        schema: str | None = None,
    ) -> None:
        """Call ``function(dataframe, batch_id, lineage)`` in the driver for each batch, to write it anywhere Spark can.

        Rows have ``key``, ``value``, ``timestamp`` … as the data source reads them; with ``schema``, such as
        ``"zone INT, amount DOUBLE, _key STRING"``, they are decoded from JSON. The records wait in the topic
        ``APP.to-spark.NAME`` until the function returns. If it raises, or after a crash, it is called again with the
        same id and rows: at least once, and exactly once if writing an id twice has no effect (Delta's ``txnVersion``).
        Ids begin at 1 again in a new ``lineage``, after a reset or a restored savepoint (Delta's ``txnAppId``).

        >>> from millstream import App
        >>> rides = App("lake").stream("rides")
        >>> rides.to_spark(lambda frame, id, lineage: frame.write.parquet(f"lake/{lineage}/batch={id}"), name="lake")
        """
        topic = f"{self._draft.app}.to-spark.{self._draft.check_connector_name(name)}"
        forms = {2: "(frame, batch_id)", 3: "(frame, batch_id, lineage)"}
        if by_arity("to_spark", function, forms).arity == 3:
            call: AnyFunction = function
        else:
            call = lambda frame, batch_id, _lineage: function(frame, batch_id)  # type: ignore[call-arg]  # noqa: E731
        self._draft.deliveries[topic] = SparkDelivery(name, call, schema)
        self._draft.add(SparkSink(source=self._node, topic=topic, name=name))

    def sink(self, sink: ConnectorProtocol, *, name: str, key: SerdeLike[K] = None, value: SerdeLike[V] = None) -> None:
        """Write each record to another system: a database, a cache, a search index, files, or a class of your own.

        The records wait in the topic ``APP.sink.NAME`` until the sink has written them, in batches that are the same
        after a crash. While the target is down the app goes on, and the sink tries again. What the target refuses goes
        through the error policy. ``describe()`` shows the guarantee of the sink (docs/connect/README.md).

        >>> from millstream.testing import TestDriver
        >>> from millstream.testing.connectors import MemorySink
        >>> app = App("doc")
        >>> app.stream("orders", value=int).sink(MemorySink(), name="cache")
        >>> with TestDriver(app) as driver:
        ...     driver.topic("orders").pipe(7, key="a")
        ...     driver.sink("cache").read_key_values()
        [('a', 7)]
        """
        if not (hasattr(sink, "open") and hasattr(sink, "guarantee")):
            raise DefinitionError(f"{sink!r:.80} is not a sink", hint="a sink has open() and guarantee")
        topic = f"{self._draft.app}.sink.{self._draft.check_connector_name(name)}"
        node = ConnectorSink(
            source=self._node,
            topic=topic,
            key=serde_for(key),
            value=serde_for(value),
            system=type(sink).__name__,
            guarantee=sink.guarantee,
            name=name,
        )
        self._draft.deliveries[topic] = SinkStep(name, sink)
        self._draft.add(node)


Handle._stream = Stream
