"""Steps whose records leave the task: sinks to topics and repartition edges to other stages."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from millstream.errors import BrokerError, MillstreamError, RecordTooLargeError, SerdeError
from millstream.foundation.blocks import Column, column_from_lines, max_item_length
from millstream.foundation.headers import headers_size
from millstream.foundation.key_columns import hashable_keys
from millstream.foundation.names import check_name
from millstream.foundation.object_codec import OBJECT_CODEC, PRESENCE_CODEC, encode_key, value_codec
from millstream.functions import Function
from millstream.operators.columns import ColumnBatch, ProcessColumns, column_operator, record_by_record
from millstream.operators.runtime import Columns, Process, Runtime, Target, operator
from millstream.plan.sinks import Sink
from millstream.plan.stateless import Repartition
from millstream.serdes import JSON, READABLE, TEXT, Serde, encode_error, route_encoder
from millstream.timestamps import milliseconds_of

_BYTES = {bytes, type(None)}
_MIN_ARROW_ROWS = 64
"""From this size on, an Arrow column is faster than a list of bytes."""


@operator.register(Sink)
def _sink(node: Sink, _forward: Process, runtime: Runtime) -> Process:
    declared = runtime.plan.declared[node]
    key_serde, value_serde = declared.key or READABLE, declared.value or JSON
    encode_value, route_of = value_serde.encode, key_serde.encode
    context, handle_error, drop = runtime.context, runtime.handle_error, runtime.drop
    fixed = None if isinstance(node.topic, Function) else runtime.to_topic(node.topic)
    choose_topic, is_text_key = _topic_chooser(node, runtime), key_serde is READABLE or key_serde is TEXT
    choose_target = _target_chooser(node, key_serde)
    time_of = None if node.timestamp is None else node.timestamp.bind(context)
    is_trusted = _is_builtin(key_serde) and _is_builtin(value_serde)

    def process(key: Any, value: Any, timestamp: int) -> None:
        try:
            columns = choose_topic(key, value) if fixed is None else fixed
            route = key.encode() if type(key) is str and is_text_key else None if key is None else route_of(key)
            data = None if value is None else encode_value(value)
            if not is_trusted:
                _check_bytes(key_serde, route)
                _check_bytes(value_serde, data)
            size = (0 if route is None else len(route)) + (0 if data is None else len(data))
            if context.has_headers:
                size += headers_size(context.headers)
            if size > columns.max_record_bytes or (route is None and columns.needs_key):
                raise _rejection(columns, size)
            target = None if choose_target is None else choose_target(key, value, columns.partitions)
            if time_of is not None:
                timestamp = milliseconds_of(time_of(key, value))
        except Exception as error:
            return handle_error(node, _encode_error(error, key, key_serde, value, value_serde), key)
        has_time = time_of is None or timestamp >= 0
        if target == [] or not has_time:
            return drop(node, "no_partition" if has_time else "invalid_timestamp")
        columns.keys.append(route)
        columns.values.append(data)
        columns.timestamps.append(timestamp)
        if context.has_headers:
            columns.set_headers(context.headers)
        if target is not None:
            columns.set_target(target)
        return None

    return process


@column_operator.register(Sink)
def _sink_columns(node: Sink, _forward: ProcessColumns, single: Process, runtime: Runtime) -> ProcessColumns | None:
    """Encode whole columns; process records one by one if there are headers or a record cannot be written."""
    if isinstance(node.topic, Function) or node.partitioner is not None or node.timestamp is not None:
        return None
    declared, columns = runtime.plan.declared[node], runtime.to_topic(node.topic)
    key_serde, value_serde = declared.key or READABLE, declared.value or JSON
    context, singly = runtime.context, record_by_record(single, runtime.context)
    is_trusted = _is_builtin(key_serde) and _is_builtin(value_serde)

    def process_columns(batch: ColumnBatch) -> None:
        if context.has_headers:
            return singly(batch)
        try:
            keys, routes = _keys_and_routes(key_serde, batch.keys)
            values = encoded_column(value_serde, batch.values)
        except Exception:
            return singly(batch)
        if not is_trusted and not _BYTES.issuperset(map(type, [*keys, *values])):
            return singly(batch)
        largest = max(map(len, filter(None, keys)), default=0)
        is_list = isinstance(values, list)
        largest += max(map(len, filter(None, values)), default=0) if is_list else max_item_length(values)
        if largest > columns.max_record_bytes or (columns.needs_key and None in keys):
            return singly(batch)
        columns.extend(keys, values, batch.timestamps, routes)
        return None

    return process_columns


def _keys_and_routes(serde: Serde, keys: list[Any]) -> tuple[list[bytes | None], list[bytes | None] | None]:
    """Encode a column of keys, and what decides their partitions if that is not the keys themselves."""
    encode_columns = getattr(serde, "encode_columns", None)  # of windowed keys
    if encode_columns is not None and type(None) not in set(map(type, keys)):
        return encode_columns(keys)  # type: ignore[no-any-return]
    encode_route = route_encoder(serde)
    if encode_route == serde.encode:
        return encoded_keys(serde, keys), None
    return encoded_keys(serde, keys), [None if key is None else encode_route(key) for key in keys]


def _is_builtin(serde: Serde) -> bool:
    """Whether a serde surely encodes to bytes, so its results need no check."""
    return type(serde).__module__.startswith("millstream.")


def _check_bytes(serde: Serde, data: Any) -> None:
    """Reject now what the log would reject after the commit of the state, when no error policy can apply."""
    if data is not None and type(data) is not bytes:
        raise SerdeError(
            f"serde {serde.name} encodes to {type(data).__name__}, not to bytes", hint="return bytes", serde=serde.name
        )


def encoded_keys(serde: Serde, keys: list[Any]) -> list[bytes | None]:
    """Encode a column of keys; numbers, which often repeat, are encoded once each."""
    serde = getattr(serde, "equivalent", None) or serde
    kinds = set(map(type, keys))
    if kinds == {str} and (serde is READABLE or serde is TEXT):
        return [key.encode() for key in keys]
    if kinds == {int}:
        encoded_by_key = {key: serde.encode(key) for key in set(keys)}
        return list(map(encoded_by_key.__getitem__, keys))
    return encoded(serde, keys)


def encoded_column(serde: Serde, items: list[Any]) -> list[bytes | None] | Column:
    """Encode a column: JSON as lines, in a single call, if there are enough rows."""
    encode_lines = getattr(serde, "encode_lines", None)  # of JSON
    if encode_lines is None or len(items) < _MIN_ARROW_ROWS or type(None) in map(type, items):
        return encoded(serde, items)
    column = column_from_lines(encode_lines(items), len(items))
    return encoded(serde, items) if column is None else column  # a user's raw JSON may contain line feeds


def encoded(serde: Serde, items: list[Any]) -> list[bytes | None]:
    """Encode a column item by item."""
    if serde is OBJECT_CODEC:
        return OBJECT_CODEC.encode_column(items)
    encode = serde.encode
    return [None if item is None else encode(item) for item in items]


def _rejection(columns: Columns, size: int) -> MillstreamError:
    """Return the error that the broker would raise after the commit of the state, when no error policy can apply."""
    if size > columns.max_record_bytes:
        return RecordTooLargeError(
            f"a record of {size} bytes is too large for its topic, which allows up to {columns.max_record_bytes}",
            hint="send smaller records, or raise max_record_bytes of the topic",
            size=size,
        )
    return SerdeError("a compacted topic cannot take a record without a key", hint="give it a key: .select_key(...)")


def _topic_chooser(node: Sink, runtime: Runtime) -> Any:
    """Return what computes the topic of a record and returns the columns of that topic; None if it is fixed."""
    if not isinstance(node.topic, Function):
        return None
    topic_of, to_topic = node.topic.bind(runtime.context), runtime.to_topic
    by_topic: dict[str, Columns] = {}

    def choose_topic(key: Any, value: Any) -> Columns:
        topic = topic_of(key, value)
        columns = by_topic.get(topic)
        if columns is None:
            columns = by_topic[topic] = to_topic(check_name("topic", topic))
        return columns

    return choose_topic


def _target_chooser(node: Sink, key_serde: Serde) -> Callable[[Any, Any, int], Target | None] | None:
    """Return what chooses the partitions of a record, or the bytes that decide them; None if the key does."""
    encode_route = route_encoder(key_serde)
    routes = None if encode_route == key_serde.encode else encode_route
    if node.partitioner is None:
        return None if routes is None else lambda key, _value, _count: None if key is None else routes(key)
    partition_of_record = node.partitioner.call

    def choose_target(key: Any, value: Any, count: int) -> Target | None:
        chosen = partition_of_record(key, value, count)
        if chosen is None:
            return None if routes is None or key is None else routes(key)
        targets = set(chosen) if isinstance(chosen, Collection) else {chosen}
        if not all(type(target) is int and 0 <= target < count for target in targets):
            raise BrokerError(
                f"the partitioner of {node.name!r} chose {chosen!r:.80}",
                hint=f"return a partition from 0 to {count - 1}, several of them, or None",
            )
        return sorted(targets)

    return choose_target


def _encode_error(error: Exception, key: Any, key_serde: Serde, value: Any, value_serde: Serde) -> Exception:
    """Return an error that says whether key or value cannot be encoded; errors of a topic function are unchanged."""
    for part, item, serde in (("key", key, key_serde), ("value", value, value_serde)):
        if item is not None:
            try:
                serde.encode(item)
            except SerdeError as serde_error:
                return serde_error
            except Exception as cause:
                return encode_error(part, item, serde, cause)
    return error


@operator.register(Repartition)
def _repartition(node: Repartition, _forward: Process, runtime: Runtime) -> Process:
    """Records without a key belong to no task: they are dropped and counted, unless a step downstream accepts them."""
    declared = runtime.plan.declared[node]
    key_serde, codec = declared.key or READABLE, edge_codec(node, declared.value)
    columns, context, handle_error, drop = runtime.to_edge(node), runtime.context, runtime.handle_error, runtime.drop
    numbers, encode_value = columns.numbers(route_encoder(key_serde)), codec.encode
    null_keys, has_values = node.null_keys, codec is not PRESENCE_CODEC
    codes, values, timestamps = columns.codes, columns.values, columns.timestamps

    def process(key: Any, value: Any, timestamp: int) -> None:
        if key is None and not null_keys:
            return drop(node, "null_key")
        try:
            code = numbers[key if type(key) is str or type(key) is int else encode_key(key)]
            data = None if value is None else encode_value(value)
        except Exception as error:
            return handle_error(node, _encode_error(error, key, key_serde, value, codec), key)
        if has_values:
            values.append(data)
        elif data is None:
            columns.null_rows.append(len(codes))
        codes.append(code)
        timestamps.append(timestamp)
        if context.has_headers:
            columns.set_headers(context.headers)
        return None

    return process


@column_operator.register(Repartition)
def _repartition_columns(
    node: Repartition, _forward: ProcessColumns, single: Process, runtime: Runtime
) -> ProcessColumns | None:
    declared, columns = runtime.plan.declared[node], runtime.to_edge(node)
    numbers, codec = columns.numbers(route_encoder(declared.key or READABLE)), edge_codec(node, declared.value)
    context, singly = runtime.context, record_by_record(single, runtime.context)
    has_values = codec is not PRESENCE_CODEC

    def process_columns(batch: ColumnBatch) -> None:
        if context.has_headers or (not node.null_keys and type(None) in map(type, batch.keys)):
            return singly(batch)
        try:
            values = encoded(codec, batch.values) if has_values else None
            codes = numbers.of_all(hashable_keys(batch.keys))
        except Exception:
            return singly(batch)
        if values is not None:
            columns.values.extend(values)
        elif not _are_true(batch.values):
            first = len(columns.codes)
            columns.null_rows.extend(first + row for row, value in enumerate(batch.values) if value is None)
        columns.codes.extend(codes)
        columns.timestamps.extend(batch.timestamps)
        return None

    return process_columns


def _are_true(values: list[Any]) -> bool:
    """Whether all values are true, so that none is null: faster than comparing each, and mostly the case."""
    try:
        return all(values)
    except Exception:  # a value that is neither true nor false, such as an array
        return False


def edge_codec(edge: Repartition, declared: Serde | None) -> Serde:
    """Return the serde of values that cross an edge."""
    return value_codec(declared) if edge.carries_values else PRESENCE_CODEC
