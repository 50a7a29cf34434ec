"""The work of steps whose records leave the task: to topics and to other stages."""

from __future__ import annotations

from typing import Any

from millstream.errors import MillstreamError, RecordTooLargeError, SerdeError
from millstream.foundation.blocks import Column, column_from_lines, max_item_length
from millstream.foundation.names import check_name
from millstream.foundation.object_codec import PRESENCE_CODEC, encode_key, hashable_keys, value_codec
from millstream.functions import Function
from millstream.operators.columns import ColumnBatch, ProcessRun, column_operator, one_by_one
from millstream.operators.runtime import Columns, Process, Runtime, operator
from millstream.plan.sinks import Sink
from millstream.plan.stateless import Repartition
from millstream.serdes import JSON, READABLE, TEXT, Json, Serde, encode_error

_BYTES = {bytes, type(None)}
_MANY = 64
"""From here on a column of Arrow is quicker than a list of bytes."""


@operator.register(Sink)
def _sink(node: Sink, _forward: Process, runtime: Runtime) -> Process:
    declared = runtime.plan.declared[node]
    key_serde, value_serde = declared.key or READABLE, declared.value or JSON
    encode_value, route_of = value_serde.encode, key_serde.encode
    context, failed = runtime.context, runtime.failed
    fixed = None if isinstance(node.topic, Function) else runtime.to_topic(node.topic)
    choose, text_as_it_is = _chooser(node, runtime), key_serde is READABLE or key_serde is TEXT
    is_trusted = _is_ours(key_serde) and _is_ours(value_serde)

    def process(key: Any, value: Any, timestamp: int) -> None:
        try:
            columns = choose(key, value) if fixed is None else fixed
            route = key.encode() if type(key) is str and text_as_it_is else None if key is None else route_of(key)
            data = None if value is None else encode_value(value)
            if not is_trusted:
                _check_bytes(key_serde, route)
                _check_bytes(value_serde, data)
            size = (0 if route is None else len(route)) + (0 if data is None else len(data))
            if size > columns.most_bytes or (route is None and columns.needs_key):
                raise _refusal(columns, size)
        except Exception as error:
            return failed(node, _explained(error, key, key_serde, value, value_serde), key)
        columns.keys.append(route)
        columns.values.append(data)
        columns.timestamps.append(timestamp)
        if context.has_headers:
            columns.note_headers(context.headers)
        return None

    return process


@column_operator.register(Sink)
def _sink_runs(node: Sink, _forward: ProcessRun, single: Process, runtime: Runtime) -> ProcessRun | None:
    """Encode whole columns; if something is wrong with one of the records, or with headers, take them one by one."""
    if isinstance(node.topic, Function):
        return None
    declared, columns = runtime.plan.declared[node], runtime.to_topic(node.topic)
    key_serde, value_serde = declared.key or READABLE, declared.value or JSON
    context, singly = runtime.context, one_by_one(single, runtime.context)
    is_trusted = _is_ours(key_serde) and _is_ours(value_serde)

    def process(run: ColumnBatch) -> None:
        if context.has_headers:
            return singly(run)
        try:
            keys, values = encoded_keys(key_serde, run.keys), encoded_column(value_serde, run.values)
        except Exception:
            return singly(run)
        if not is_trusted and not _BYTES.issuperset(map(type, [*keys, *values])):
            return singly(run)
        largest = max(map(len, filter(None, keys)), default=0)
        is_list = isinstance(values, list)
        largest += max(map(len, filter(None, values)), default=0) if is_list else max_item_length(values)
        if largest > columns.most_bytes or (columns.needs_key and None in keys):
            return singly(run)
        columns.extend(keys, values, run.timestamps)
        return None

    return process


def _is_ours(serde: Serde) -> bool:
    """Whether what a serde gives need not be looked at."""
    return type(serde).__module__.startswith("millstream.")


def _check_bytes(serde: Serde, data: Any) -> None:
    """Say now what the log would say after the state is committed, when no policy can help any more."""
    if data is not None and type(data) is not bytes:
        raise SerdeError(
            f"serde {serde.name} encodes to {type(data).__name__}, not to bytes", hint="return bytes", serde=serde.name
        )


def encoded_keys(serde: Serde, keys: list[Any]) -> list[bytes | None]:
    """Encode a column of keys: numbers, of which there are often few, each once."""
    kinds = set(map(type, keys))
    if kinds == {str} and (serde is READABLE or serde is TEXT):
        return [key.encode() for key in keys]
    if kinds == {int}:
        known = {key: serde.encode(key) for key in set(keys)}
        return list(map(known.__getitem__, keys))
    return encoded(serde, keys)


def encoded_column(serde: Serde, items: list[Any]) -> list[bytes | None] | Column:
    """Encode a column: JSON as lines, in a single call, if there are enough of them."""
    if type(serde) is not Json or len(items) < _MANY or type(None) in map(type, items):
        return encoded(serde, items)
    column = column_from_lines(serde.encode_lines(items), len(items))
    return encoded(serde, items) if column is None else column  # raw JSON of a user may hold line feeds


def encoded(serde: Serde, items: list[Any]) -> list[bytes | None]:
    """Encode a column item by item."""
    if serde is PRESENCE_CODEC:
        return [None if item is None else b"" for item in items]
    encode = serde.encode
    return [None if item is None else encode(item) for item in items]


def _refusal(columns: Columns, size: int) -> MillstreamError:
    """Say now what the broker would say after the state is committed, when no policy can help any more."""
    if size > columns.most_bytes:
        return RecordTooLargeError(
            f"a record of {size} bytes is too large for its topic, which allows up to {columns.most_bytes}",
            hint="send smaller records, or raise max_record_bytes of the topic",
            size=size,
        )
    return SerdeError("a record without a key cannot go to a compacted topic", hint="give it a key: .select_key(...)")


def _chooser(node: Sink, runtime: Runtime) -> Any:
    """Return what finds the columns for a record by the topic that is computed from it."""
    if not isinstance(node.topic, Function):
        return None
    topic_of, to_topic = node.topic.bind(runtime.context), runtime.to_topic
    known: dict[str, Columns] = {}

    def choose(key: Any, value: Any) -> Columns:
        topic = topic_of(key, value)
        columns = known.get(topic)
        if columns is None:
            columns = known[topic] = to_topic(check_name("topic", topic))
        return columns

    return choose


def _explained(error: Exception, key: Any, key_serde: Serde, value: Any, value_serde: Serde) -> Exception:
    """Say which half of a record cannot be encoded; errors of a topic function are left alone."""
    for what, item, serde in (("key", key, key_serde), ("value", value, value_serde)):
        if item is not None:
            try:
                serde.encode(item)
            except SerdeError as known:
                return known
            except Exception as cause:
                return encode_error(what, item, serde, cause)
    return error


@operator.register(Repartition)
def _repartition(node: Repartition, _forward: Process, runtime: Runtime) -> Process:
    """Null keys belong to no task: they are dropped here and counted, unless somebody behind can do without a key."""
    declared = runtime.plan.declared[node]
    key_serde, codec = declared.key or READABLE, edge_codec(node, declared.value)
    columns, context, failed, dropped = runtime.to_edge(node), runtime.context, runtime.failed, runtime.dropped
    numbers, encode_value = columns.numbers(key_serde.encode), codec.encode
    null_keys = node.null_keys
    codes, values, timestamps = columns.codes, columns.values, columns.timestamps

    def process(key: Any, value: Any, timestamp: int) -> None:
        if key is None and not null_keys:
            return dropped(node, "null_key")
        try:
            code = numbers[key if type(key) is str or type(key) is int else encode_key(key)]
            data = None if value is None else encode_value(value)
        except Exception as error:
            return failed(node, _explained(error, key, key_serde, value, codec), key)
        codes.append(code)
        values.append(data)
        timestamps.append(timestamp)
        if context.has_headers:
            columns.note_headers(context.headers)
        return None

    return process


@column_operator.register(Repartition)
def _repartition_runs(node: Repartition, _forward: ProcessRun, single: Process, runtime: Runtime) -> ProcessRun | None:
    declared, columns = runtime.plan.declared[node], runtime.to_edge(node)
    numbers, codec = columns.numbers((declared.key or READABLE).encode), edge_codec(node, declared.value)
    context, singly = runtime.context, one_by_one(single, runtime.context)

    def process(run: ColumnBatch) -> None:
        if context.has_headers or (not node.null_keys and type(None) in map(type, run.keys)):
            return singly(run)
        try:
            values = encoded(codec, run.values)
            codes = list(map(numbers.__getitem__, hashable_keys(run.keys)))
        except Exception:
            return singly(run)
        columns.codes.extend(codes)
        columns.values.extend(values)
        columns.timestamps.extend(run.timestamps)
        return None

    return process


def edge_codec(edge: Repartition, declared: Serde | None) -> Serde:
    """Return how values cross an edge."""
    return value_codec(declared) if edge.carries_values else PRESENCE_CODEC
