"""Reading topics as streams, tables and global tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, overload

from millstream.dsl.global_table import GlobalTable
from millstream.dsl.handle import Handle
from millstream.dsl.stream import Stream
from millstream.dsl.table import Table
from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError
from millstream.foundation.type_variables import TextKey, Value
from millstream.plan.histories import checked_history
from millstream.plan.sources import GlobalTableSource, Source, StreamSource, TableSource
from millstream.plan.topology import Draft
from millstream.serdes import JSON, READABLE, Serde, SerdeLike, serde_for
from millstream.timestamps import (
    KeyedTimestamp,
    OnInvalid,
    TimestampLike,
    ValueTimestamp,
    checked_on_invalid,
    timestamp_source,
)
from millstream.windowed_serdes import reading_serde

if TYPE_CHECKING:
    from millstream.connect.protocols import Source as ConnectorSource

H = TypeVar("H", bound=Handle)


class StreamOptions(TypedDict, total=False):
    """Options of ``stream`` for its overloads."""

    pattern: str | None
    on_invalid: OnInvalid
    idle_after: Duration | None
    name: str | None


class TableOptions(TypedDict, total=False):
    """Options of ``table`` for its overloads."""

    on_invalid: OnInvalid
    idle_after: Duration | None
    history: Duration | None
    name: str | None


class Sources:
    """The verbs of an app that read topics. Overloads: with and without a type, by form of the timestamp function."""

    def __init__(self, app: str) -> None:
        self._draft = Draft(app)
        self._sources: dict[frozenset[str], Handle] = {}

    @overload
    def stream(
        self,
        *topics: str,
        key: SerdeLike[TextKey] = None,
        value: type[Value] | Serde[Value],
        timestamp: ValueTimestamp[Value] = None,
        **options: Unpack[StreamOptions],
    ) -> Stream[TextKey, Value]: ...
    @overload
    def stream(
        self,
        *topics: str,
        key: SerdeLike[TextKey] = None,
        value: None = None,
        timestamp: ValueTimestamp[Any] = None,
        **options: Unpack[StreamOptions],
    ) -> Stream[TextKey, Any]: ...
    @overload
    def stream(
        self,
        *topics: str,
        key: SerdeLike[TextKey] = None,
        value: SerdeLike[Value] = None,
        timestamp: KeyedTimestamp,
        **options: Unpack[StreamOptions],
    ) -> Stream[TextKey, Value]: ...
    def stream(
        self,
        *topics: str,
        pattern: str | None = None,
        key: SerdeLike = None,
        value: SerdeLike = None,
        timestamp: TimestampLike = None,
        on_invalid: OnInvalid = "fail",
        idle_after: Duration | None = None,
        name: str | None = None,
    ) -> Stream:
        """Read one topic, several topics as one stream, or all topics whose whole name matches ``pattern``.

        ``timestamp`` computes event time from a record, as a datetime or in milliseconds; the default is the record's
        own timestamp, ``"append"`` is the log's and ``"wall_clock"`` the time of processing. ``on_invalid`` decides
        about a record without a valid time: the app fails, skips it, or uses the latest time of its partition. After
        ``idle_after`` without records, stream time follows the wall clock, that much behind it. Reading the same
        topics again returns the same stream. New topics that match a pattern join with the next batch.
        """
        if bool(topics) is (pattern is not None):
            raise DefinitionError(
                "stream() needs topics or a pattern" if not topics else "stream() takes topics or a pattern, not both",
                hint='for example app.stream("rides") or app.stream(pattern="rides-.*")',
            )
        node = StreamSource(
            topics=topics, pattern=pattern, name=name, **_source_settings(key, value, timestamp, on_invalid, idle_after)
        )
        return self._source(node, Stream)

    @overload
    def table(
        self,
        topic: str,
        *,
        key: SerdeLike[TextKey] = None,
        value: type[Value] | Serde[Value],
        timestamp: ValueTimestamp[Value] = None,
        **options: Unpack[TableOptions],
    ) -> Table[TextKey, Value]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        key: SerdeLike[TextKey] = None,
        value: None = None,
        timestamp: ValueTimestamp[Any] = None,
        **options: Unpack[TableOptions],
    ) -> Table[TextKey, Any]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        key: SerdeLike[TextKey] = None,
        value: SerdeLike[Value] = None,
        timestamp: KeyedTimestamp,
        **options: Unpack[TableOptions],
    ) -> Table[TextKey, Value]: ...
    def table(
        self,
        topic: str,
        *,
        key: SerdeLike = None,
        value: SerdeLike = None,
        timestamp: TimestampLike = None,
        on_invalid: OnInvalid = "fail",
        idle_after: Duration | None = None,
        history: Duration | None = None,
        name: str | None = None,
    ) -> Table:
        """Read a topic as a table: the latest record of a key is its row, a null value deletes it.

        Records without key are dropped and counted. The last record by offset wins, regardless of timestamps. With
        ``history`` the last one by timestamp wins, streams are joined with the row that was valid at their time, and
        records older than the history are dropped and counted.

        >>> app = App("doc")
        >>> prices = app.table("prices", value=int, history="5 min")
        >>> app.stream("sales", value=str).join(prices, lambda sale, price: f"{sale} for {price}").to("out")
        >>> from millstream.testing import TestDriver
        >>> with TestDriver(app) as driver:
        ...     driver.topic("prices").pipe(10, key="pen", timestamp=0)
        ...     driver.topic("prices").pipe(12, key="pen", timestamp=60_000)
        ...     driver.topic("sales").pipe("ann", key="pen", timestamp=30_000)
        ...     driver.topic("out").read_values()
        ['ann for 10']
        """
        node = TableSource(
            topics=(topic,),
            name=name,
            named=name is not None,
            history=checked_history("table", history),
            **_source_settings(key, value, timestamp, on_invalid, idle_after),
        )
        return self._source(node, Table)

    def global_table(
        self, topic: str, *, key: SerdeLike[TextKey] = None, value: SerdeLike[Value] = None, name: str | None = None
    ) -> GlobalTable[TextKey, Value]:
        """Read a topic as a table whose rows every task can see, so that streams can look up any key.

        It is read to its end before each batch; its time is independent of the streams'. The last record by offset
        wins, a null value deletes the row, records without key are dropped and counted.

        >>> app = App("doc")
        >>> rates = app.global_table("rates", value=float)
        >>> sales = app.stream("sales", value=str)
        >>> sales.join(rates, lambda sale, rate: f"{sale} at {rate}", key=lambda sale: sale[-3:]).to("out")
        >>> outputs(app, rates=[("EUR", 1.1)], sales=["9 EUR", "9 CHF"])
        [(None, '9 EUR at 1.1')]
        """
        node = GlobalTableSource(topics=(topic,), name=name, **_source_settings(key, value))
        return self._source(node, GlobalTable)

    def source(self, source: ConnectorSource, *, name: str) -> ConnectedSource:
        """Read another system into topics while the app runs, and return a handle for its streams and tables.

        The position of the source and the records up to it are one commit, and the records appear in the topics once.
        A reset of the app keeps the position, since it keeps the topics. While the system is down the app goes on, and
        the source tries again (docs/connect/README.md).

        >>> from millstream.testing import TestDriver
        >>> from millstream.testing.connectors import MemorySource
        >>> app = App("doc")
        >>> shop = app.source(MemorySource("shop.orders"), name="shop")
        >>> shop.stream("orders", value=int).map_values(lambda n: n * 2).to("out")
        >>> with TestDriver(app) as driver:
        ...     driver.source("shop").insert("orders", 4, key="a")
        ...     driver.topic("out").read_key_values()
        [('a', 8)]
        """
        if not (hasattr(source, "open") and hasattr(source, "topics")):
            raise DefinitionError(f"{source!r:.80} is not a source", hint="a source has topics() and open()")
        self._draft.sources[self._draft.check_connector_name(name)] = source
        return ConnectedSource(self, name, source)

    def _source(self, node: Source, kind: type[H]) -> H:
        topics = frozenset(node.topics or (f"pattern {node.pattern}",))
        existing = self._sources.get(topics)
        if isinstance(existing, Table) and kind is Table:
            raise DefinitionError(
                f"topic {node.topics[0]!r} is read as a table twice", hint="keep the first table and use it twice"
            )
        if isinstance(existing, kind):
            _check_same(existing, node)
            return existing
        handle = kind(self._draft, node)
        self._sources[topics] = handle
        return handle


class ConnectedSource:
    """The topics that a source fills; a topic is named in full, or by its last part."""

    def __init__(self, sources: Sources, name: str, source: ConnectorSource) -> None:
        self._sources = sources
        self._source = source
        self.name = name

    def topic(self, name: str) -> str:
        """Return the topic that has this name, or ends with it after a dot."""
        topics = list(self._source.topics())
        matching = [topic for topic in topics if topic == name] or [
            topic for topic in topics if topic.endswith(f".{name}")
        ]
        if len(matching) != 1:
            raise DefinitionError(
                f"source {self.name!r} has {'no' if not matching else 'several'} topics named {name!r}",
                hint=f"its topics: {', '.join(topics) or 'none'}",
            )
        return matching[0]

    def stream(
        self,
        topic: str,
        *,
        key: SerdeLike[TextKey] = None,
        value: SerdeLike[Value] = None,
        timestamp: TimestampLike = None,
        **options: Unpack[StreamOptions],
    ) -> Stream[TextKey, Value]:
        """Read a topic of the source as a stream; the options are those of ``app.stream``."""
        read: Any = self._sources.stream
        stream: Stream[TextKey, Value] = read(self.topic(topic), key=key, value=value, timestamp=timestamp, **options)
        return stream

    def table(
        self,
        topic: str,
        *,
        key: SerdeLike[TextKey] = None,
        value: SerdeLike[Value] = None,
        timestamp: TimestampLike = None,
        **options: Unpack[TableOptions],
    ) -> Table[TextKey, Value]:
        """Read a topic of the source as a table; the options are those of ``app.table``."""
        read: Any = self._sources.table
        table: Table[TextKey, Value] = read(self.topic(topic), key=key, value=value, timestamp=timestamp, **options)
        return table


def _check_same(existing: Handle, node: Source) -> None:
    """Raise if the same topics are read with different serdes; an omitted serde means the first one."""
    first = existing._node
    assert isinstance(first, Source)
    for option, default in (("key", READABLE), ("value", JSON)):
        before, now = getattr(first, option), getattr(node, option)
        if now is not default and before.name != now.name:
            raise DefinitionError(
                f"topic {node.topics[0]!r} is read with {option}={before.name} and with {option}={now.name}",
                hint="read it once and use the result twice",
            )


def _source_settings(
    key: SerdeLike,
    value: SerdeLike,
    timestamp: TimestampLike = None,
    on_invalid: OnInvalid = "fail",
    idle_after: Duration | None = None,
) -> dict[str, Any]:
    """Return the settings of any source; defaults are None, so that they are not part of the plan."""
    time, policy = timestamp_source(timestamp), checked_on_invalid(on_invalid)
    return {
        "key": reading_serde(key) or READABLE,
        "value": serde_for(value) or JSON,
        "timestamp": None if time == "record" else time,
        "on_invalid": None if policy == "fail" else policy,
        "idle_after": None if idle_after is None else _idle_milliseconds(idle_after),
    }


def _idle_milliseconds(idle_after: Duration) -> int:
    length = milliseconds(idle_after)
    if length < 1:
        raise DefinitionError(f"idle_after={idle_after!r} is not valid", hint='use 1 ms or more, such as "10 s"')
    return length
