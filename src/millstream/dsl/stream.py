"""The handle of a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.dsl.global_table import GlobalTable
from millstream.dsl.grouped import GroupedStream
from millstream.dsl.handle import Handle
from millstream.dsl.joins import JoinSettings, join_node
from millstream.dsl.splitter import Splitter
from millstream.dsl.table import Table
from millstream.durations import Duration
from millstream.errors import DefinitionError
from millstream.foundation.names import check_name
from millstream.functions import AnyFunction, by_arity
from millstream.plan.histories import checked_history
from millstream.plan.processors import Process, ProcessValues
from millstream.plan.sinks import Sink, SparkSink
from millstream.plan.stateful import ToTable
from millstream.plan.stateless import (
    Filter,
    FlatMap,
    FlatMapValues,
    Foreach,
    Map,
    MapValues,
    Merge,
    Peek,
    Repartition,
    SelectKey,
)
from millstream.plan.topology import SparkDelivery
from millstream.processors import Factory, Processor, checked
from millstream.serdes import SerdeLike, serde_for
from millstream.windows import JoinWindow


class Stream(Handle):
    """Records as facts, each on its own.

    Functions take ``(value)``, ``(key, value)`` or ``(key, value, context)``; null keys and values reach them as None.
    """

    def filter(self, predicate: AnyFunction, *, name: str | None = None) -> Stream:
        """Keep the records for which ``predicate`` holds.

        >>> app = App("doc")
        >>> app.stream("n", value=int).filter(lambda n: n > 1).to("out")
        >>> outputs(app, n=[1, 2, 3])
        [(None, 2), (None, 3)]
        """
        return Stream(self._draft, Filter(source=self._node, predicate=by_arity("filter", predicate), name=name))

    def filter_not(self, predicate: AnyFunction, *, name: str | None = None) -> Stream:
        """Drop the records for which ``predicate`` holds.

        >>> app = App("doc")
        >>> app.stream("n", value=int).filter_not(lambda n: n > 1).to("out")
        >>> outputs(app, n=[1, 2, 3])
        [(None, 1)]
        """
        function = by_arity("filter_not", predicate)
        return Stream(self._draft, Filter(source=self._node, predicate=function, negate=True, name=name))

    def map(
        self, mapper: AnyFunction, *, key: SerdeLike = None, value: SerdeLike = None, name: str | None = None
    ) -> Stream:
        """Replace key and value by the pair that ``mapper`` returns.

        Marks the stream as re-keyed: the next grouping, join or table moves records to the task of their new key.

        >>> app = App("doc")
        >>> app.stream("w", value=str).map(lambda w: (w, len(w))).to("out")
        >>> outputs(app, w=["mill"])
        [('mill', 4)]
        """
        node = Map(
            source=self._node,
            mapper=by_arity("map", mapper),
            key=serde_for(key),
            value=serde_for(value),
            name=name,
        )
        return Stream(self._draft, node)

    def map_values(self, mapper: AnyFunction, *, value: SerdeLike = None, name: str | None = None) -> Stream:
        """Replace the value; the key stays.

        >>> app = App("doc")
        >>> app.stream("n", value=int).map_values(lambda n: n * 10).to("out")
        >>> outputs(app, n=[1, 2])
        [(None, 10), (None, 20)]
        """
        function = by_arity("map_values", mapper)
        return Stream(self._draft, MapValues(source=self._node, mapper=function, value=serde_for(value), name=name))

    def flat_map(
        self, mapper: AnyFunction, *, key: SerdeLike = None, value: SerdeLike = None, name: str | None = None
    ) -> Stream:
        """Replace each record by the key-value pairs that ``mapper`` returns, none or many.

        Marks the stream as re-keyed, as ``map`` does. If the function raises, none of its pairs is passed on.

        >>> app = App("doc")
        >>> app.stream("line", value=str).flat_map(lambda line: [(w, 1) for w in line.split()]).to("out")
        >>> outputs(app, line=["a b"])
        [('a', 1), ('b', 1)]
        """
        node = FlatMap(
            source=self._node,
            mapper=by_arity("flat_map", mapper),
            key=serde_for(key),
            value=serde_for(value),
            name=name,
        )
        return Stream(self._draft, node)

    def flat_map_values(self, mapper: AnyFunction, *, value: SerdeLike = None, name: str | None = None) -> Stream:
        """Replace each value by the values that ``mapper`` returns, none or many; the key stays.

        >>> app = App("doc")
        >>> app.stream("line", value=str).flat_map_values(str.split).to("out")
        >>> outputs(app, line=["a b"])
        [(None, 'a'), (None, 'b')]
        """
        function = by_arity("flat_map_values", mapper)
        return Stream(self._draft, FlatMapValues(source=self._node, mapper=function, value=serde_for(value), name=name))

    def select_key(self, mapper: AnyFunction, *, key: SerdeLike = None, name: str | None = None) -> Stream:
        """Give each record the key that ``mapper`` returns; marks the stream as re-keyed.

        >>> app = App("doc")
        >>> app.stream("w", value=str).select_key(lambda w: w[0]).to("out")
        >>> outputs(app, w=["mill"])
        [('m', 'mill')]
        """
        function = by_arity("select_key", mapper)
        return Stream(self._draft, SelectKey(source=self._node, mapper=function, key=serde_for(key), name=name))

    def peek(self, action: AnyFunction, *, name: str | None = None) -> Stream:
        """Call ``action`` with each record and pass the record on.

        Side effects are not exactly-once: after a failure a batch may be run again.

        >>> app = App("doc")
        >>> seen = []
        >>> app.stream("n", value=int).peek(seen.append).to("out")
        >>> outputs(app, n=[1]), seen
        ([(None, 1)], [1])
        """
        return Stream(self._draft, Peek(source=self._node, action=by_arity("peek", action), name=name))

    def foreach(self, action: AnyFunction, *, name: str | None = None) -> None:
        """Call ``action`` with each record; nothing follows. Not exactly-once, see ``peek``."""
        self._draft.add(Foreach(source=self._node, action=by_arity("foreach", action), name=name))

    def print(self, label: str | None = None) -> None:
        """Print each record of the stream where its task runs."""
        prefix = "" if label is None else f"[{label}] "
        self.foreach(lambda key, value: print(f"{prefix}{key!r}: {value!r}"))  # noqa: T201

    def merge(self, *others: Stream, name: str | None = None) -> Stream:
        """Put several streams together; each keeps its order, and a stream merged with itself counts once.

        >>> app = App("doc")
        >>> app.stream("a", value=int).merge(app.stream("b", value=int)).to("out")
        >>> outputs(app, a=[1], b=[2])
        [(None, 1), (None, 2)]
        """
        return Stream(self._draft, Merge(sources=(self._node, *(other._node for other in others)), name=name))

    def split(self) -> Splitter:
        """Start to send records different ways: ``.branch(predicate, use).default(use)``.

        >>> app = App("doc")
        >>> (app.stream("n", value=int).split()
        ...     .branch(lambda n: n < 0, lambda negative: negative.to("out"))
        ...     .default(lambda rest: rest.map_values(lambda n: n * 100).to("out")))
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
    ) -> Stream:
        """Move each record to the task that owns its key, over ``partitions`` tasks if given.

        Records without key are dropped and counted. Groupings and joins do this by themselves where needed.
        """
        node = Repartition(
            source=self._node, partitions=partitions, key=serde_for(key), value=serde_for(value), name=name
        )
        return Stream(self._draft, node)

    def group_by(self, mapper: AnyFunction, *, key: SerdeLike = None, name: str | None = None) -> GroupedStream:
        """Group by the key that ``mapper`` returns; records for which it is None are dropped.

        >>> app = App("doc")
        >>> app.stream("w", value=str).group_by(lambda w: w[0]).count().to_stream().to("out")
        >>> outputs(app, w=["mill", "stream", "mud"])
        [('m', 1), ('s', 1), ('m', 2)]
        """
        function = by_arity("group_by", mapper)
        return GroupedStream(self._draft, SelectKey(source=self._node, mapper=function, key=serde_for(key), name=name))

    def group_by_key(self) -> GroupedStream:
        """Group by the key that records have; moves them only if a verb before may have changed it."""
        return GroupedStream(self._draft, self._node)

    def to_table(
        self,
        *,
        key: SerdeLike = None,
        value: SerdeLike = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table:
        """Take each record as the newest row of its key; a null value deletes the row, a null key is dropped.

        With ``history`` earlier rows are kept for so long, as in ``app.table``.

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

    def join(
        self,
        other: Stream | Table | GlobalTable,
        joiner: AnyFunction,
        *,
        within: JoinWindow | None = None,
        grace: Duration | None = None,
        key: AnyFunction | None = None,
        value: SerdeLike = None,
        late_to: str | None = None,
        name: str | None = None,
    ) -> Stream:
        """Join each record with records of another stream that are close in time, or with a table's row of its key.

        With a table the row is the one at that moment, of a table with history the one that was valid at the record's
        time, and table changes emit nothing; with ``grace`` the record first waits so long for late table updates. With
        a stream every pair inside the window is passed on once, when its second record comes, with the later timestamp
        of the two. What has no partner, no key or no value is not passed on. Both sides need equally many partitions.
        Of a global table any row can be asked for: ``key`` says which, without it the one of the record's key. With
        ``late_to`` records that come too late to wait for partners in another stream also go to that topic.

        >>> app = App("doc")
        >>> clicks, views = app.stream("clicks", value=str), app.stream("views", value=str)
        >>> clicks.join(views, lambda click, view: f"{view}/{click}", within=join_window("1 s")).to("out")
        >>> outputs(app, views=[("u1", "page")], clicks=[("u1", "buy"), ("u2", "buy")])
        [('u1', 'page/buy')]
        """
        return Stream(
            self._draft, join_node(self, "inner", other, joiner, JoinSettings(within, grace, key, value, name, late_to))
        )

    def left_join(
        self,
        other: Stream | Table | GlobalTable,
        joiner: AnyFunction,
        *,
        within: JoinWindow | None = None,
        grace: Duration | None = None,
        key: AnyFunction | None = None,
        value: SerdeLike = None,
        late_to: str | None = None,
        name: str | None = None,
    ) -> Stream:
        """Join each record with its partner, or with None if there is none.

        With a stream that is known when the window and its grace have passed: the record is then passed on alone, with
        its own timestamp, as soon as a later record of either stream shows it. A record without key has no partner.
        """
        return Stream(
            self._draft, join_node(self, "left", other, joiner, JoinSettings(within, grace, key, value, name, late_to))
        )

    def outer_join(
        self,
        other: Stream,
        joiner: AnyFunction,
        *,
        within: JoinWindow | None = None,
        value: SerdeLike = None,
        late_to: str | None = None,
        name: str | None = None,
    ) -> Stream:
        """Join the records of two streams that are close in time; either side may be None, see ``left_join``."""
        return Stream(
            self._draft,
            join_node(self, "outer", other, joiner, JoinSettings(within, value=value, name=name, late_to=late_to)),
        )

    def process(
        self, processor: Factory, *, key: SerdeLike = None, value: SerdeLike = None, name: str | None = None
    ) -> Stream:
        """Hand each record to a ``Processor``, which keeps what it likes in stores and forwards what it likes.

        ``processor`` is the class, or a function without arguments that makes an object of it. Marks the stream as
        re-keyed, as ``map`` does. Records come as they are: null keys and values too.

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

    def process_values(self, processor: Factory, *, value: SerdeLike = None, name: str | None = None) -> Stream:
        """Hand each record to a ``Processor`` that keeps its key; so no re-keying follows.

        It may forward only while a record is at hand, and under the key of that record.
        """
        facts = checked("process_values", processor, Processor)
        return Stream(self._draft, ProcessValues(source=self._node, value=serde_for(value), name=name, **facts))

    def to(
        self,
        topic: str | AnyFunction,
        *,
        key: SerdeLike = None,
        value: SerdeLike = None,
        name: str | None = None,
    ) -> None:
        """Write each record to a topic, fixed or computed by a function of the record.

        Keys are written as text, or JSON if they are not text; values as JSON, unless types were declared.
        Exactly-once: the records of a batch appear once, whatever fails.
        """
        target = topic if isinstance(topic, str) else by_arity("to", topic)
        self._draft.add(Sink(source=self._node, topic=target, key=serde_for(key), value=serde_for(value), name=name))

    def to_spark(self, function: Callable[[Any, int], Any], *, name: str, schema: str | None = None) -> None:
        """Call ``function(dataframe, batch_id)`` in the driver for each batch, to write it wherever Spark can.

        Rows are ``key``, ``value``, ``timestamp`` … as the data source reads them; with ``schema``, such as
        ``"zone INT, amount DOUBLE, _key STRING"``, they are decoded from JSON. The records wait in the topic
        ``APP.to-spark.NAME`` until the function returns. After a crash it is called again with the same id and the
        same rows: at least once, and exactly once if writing an id twice has no effect (Delta's ``txnVersion``).

        >>> from millstream import App
        >>> app = App("lake")
        >>> rides = app.stream("rides")
        >>> rides.to_spark(lambda frame, batch: frame.write.parquet(f"lake/batch={batch}"), name="lake")
        """
        topic = f"{self._draft.app}.to-spark.{check_name('step', name)}"
        if topic in self._draft.deliveries:
            raise DefinitionError(
                f"there are two to_spark steps of the name {name!r}", hint="give them different names"
            )
        self._draft.deliveries[topic] = SparkDelivery(name, function, schema)
        self._draft.add(SparkSink(source=self._node, topic=topic, name=name))


Table._stream = Stream
