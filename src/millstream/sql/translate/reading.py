"""Read streams and tables from topics, with the columns that are not in key or value: time, position and headers."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

from millstream.dsl.sources import Sources
from millstream.dsl.stream import Stream
from millstream.dsl.table import Table
from millstream.functions import Context, Function
from millstream.plan.node import Node
from millstream.plan.sources import StreamSource, TableSource
from millstream.plan.stateful import ToTable
from millstream.plan.stateless import MapValues
from millstream.sql.catalog import Relation
from millstream.sql.compiled import Scope
from millstream.sql.java_times import moment_of, parse_time
from millstream.sql.translate.flow import QueryFlow
from millstream.sql.translate.names import BOUNDS, PSEUDO, Input
from millstream.sql.values import to_millis


class Readers:
    """The streams and tables of an app that SQL reads; each is read once, whatever the number of queries."""

    def __init__(self, sources: Sources) -> None:
        self._draft = sources._draft
        self._handles: dict[tuple[str, str, tuple[str, ...]], Any] = {}
        self.bound: dict[str, Any] = {}
        """Handles of Python by the names that SQL uses for them."""

    @property
    def steps(self) -> frozenset[Node]:
        """All steps of the app so far."""
        return frozenset(self._draft.nodes)

    @property
    def ordered_steps(self) -> tuple[Node, ...]:
        """All steps of the app so far, inputs first."""
        return tuple(self._draft.nodes)

    def remove(self, steps: frozenset[Node]) -> None:
        """Remove steps from the app, except those that others read."""
        self._draft.remove(steps)
        kept = self.steps
        self._handles = {identity: handle for identity, handle in self._handles.items() if handle._node in kept}

    def handle(self, relation: Relation, extra: tuple[str, ...]) -> Any:
        """Return the handle of a relation with these columns of its context in the value."""
        identity = relation.name, relation.schema, extra
        if identity not in self._handles:
            self._handles[identity] = self._read(relation, extra)
        return self._handles[identity]

    def _read(self, relation: Relation, extra: tuple[str, ...]) -> Any:
        if relation.name in self.bound:
            handle = self.bound[relation.name]
        elif relation.kind == "TABLE" and not extra:
            return Table(self._draft, TableSource(history=relation.history, **self._settings(relation)))
        else:
            handle = self._stream(relation)
        if extra:
            mapper = Extended(extra, relation.headers)
            handle = Stream(self._draft, MapValues(source=handle._node, mapper=mapper))
        if relation.kind == "STREAM" or isinstance(handle, Table):
            return handle
        return Table(self._draft, ToTable(source=handle._node, history=relation.history))

    def _stream(self, relation: Relation) -> Stream[Any, Any]:
        identity = relation.name, relation.schema, ("as a stream",)
        if identity not in self._handles:
            self._handles[identity] = Stream(self._draft, StreamSource(**self._settings(relation)))
        handle: Stream[Any, Any] = self._handles[identity]
        return handle

    @staticmethod
    def _settings(relation: Relation) -> dict[str, Any]:
        settings: dict[str, Any] = {"key": relation.key_serde, "value": relation.value_serde}
        if relation.timestamp is not None:
            settings |= {"timestamp": ColumnTime(relation), "on_invalid": relation.on_invalid}
            settings["on_invalid"] = None if relation.on_invalid == "fail" else relation.on_invalid
        return {"topics": (relation.topic,), "shared": True, "name": source_name(relation.name), **settings}


def source_name(name: str) -> str:
    """Return the name of the step that reads a relation; it differs from the names of steps that write one."""
    return f"{node_name(name)}.source"


def node_name(name: str) -> str:
    """Return a name that a step can have."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".") or "_"


def read(readers: Readers, source: Input, needed: set[str], query: str) -> QueryFlow:
    """Return the flow of a source; ``needed`` are the columns that the query with a name uses."""
    relation = source.relation
    extra = tuple(name for name in (*PSEUDO, *relation.headers) if name in needed)
    return QueryFlow(
        handle=readers.handle(relation, extra),
        scope=scope_of(source, extra),
        keys=tuple((name,) for name in relation.keys),
        key_types=tuple(relation.keys.values()),
        window=relation.window,
        key_serde=relation.key_serde,
        query=query,
    )


def scope_of(source: Input, extra: tuple[str, ...]) -> Scope:
    """Return where the columns of a source are."""
    relation = source.relation
    base = "key" if relation.window is None else "window.key"
    single = len(relation.keys) == 1
    keys = ((name, str(type), base if single else f"{base}.{number}") for number, (name, type) in _numbered(relation))
    values = ((name, str(type), "value") for name, type in relation.values.items())
    added = ((name, str(source.all_columns[name]), "value") for name in extra)
    bounds: Scope = ()
    if relation.window is not None:
        bounds = tuple((name, str(type), f"window.{name[6:].lower()}") for name, type in BOUNDS.items())
    return (*keys, *values, *added, *bounds)


def _numbered(relation: Relation) -> Any:
    return enumerate(relation.keys.items())


class Extended(Function):
    """Adds columns to a row that are taken from the context of its record."""

    def __init__(self, names: tuple[str, ...], headers: dict[str, str | None]) -> None:
        self._names = names
        self._headers = headers
        super().__init__(self._extend, 3)

    @property
    def name(self) -> str:
        return f"sql:extend:{','.join(self._names)}"

    def _extend(self, _key: Any, value: dict[str, Any] | None, context: Context) -> dict[str, Any] | None:
        if value is None:
            return None
        return {**value, **{name: self._column(name, context) for name in self._names}}

    def _column(self, name: str, context: Context) -> Any:
        if name not in self._headers:
            return {"ROWTIME": context.timestamp, "ROWPARTITION": context.partition, "ROWOFFSET": context.offset}[name]
        wanted = self._headers[name]
        if wanted is None:
            return [{"KEY": key, "VALUE": value} for key, value in context.headers]
        return next((value for key, value in reversed(context.headers) if key == wanted), None)


class ColumnTime(Function):
    """The event time that a column contains."""

    def __init__(self, relation: Relation) -> None:
        assert relation.timestamp is not None
        self._column = relation.timestamp
        self._format = relation.timestamp_format
        keys = list(relation.keys)
        self._number = keys.index(self._column) if self._column in keys else None
        self._single = len(keys) == 1
        super().__init__(self._time, 2)

    @property
    def name(self) -> str:
        return f"sql:timestamp:{self._column}:{self._format or ''}"

    def _time(self, key: Any, value: dict[str, Any] | None) -> int:
        if self._number is not None:
            moment = key if self._single else key[self._number]
        else:
            moment = None if value is None else value.get(self._column)
        if isinstance(moment, str) and self._format is not None:
            try:
                return to_millis(moment_of(parse_time(moment, self._format), dt.UTC))
            except ValueError:
                return -1
        return to_millis(moment) if isinstance(moment, dt.datetime) else -1 if moment is None else int(moment)
