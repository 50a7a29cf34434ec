"""Reading topics as streams, tables and global tables."""

from __future__ import annotations

from typing import Any, TypedDict, TypeVar, Unpack, overload

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
