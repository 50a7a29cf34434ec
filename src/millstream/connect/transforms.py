"""Simple changes of records between a topic and another system: mask, drop, rename, where and route.

They see decoded JSON objects. More than that is a topology: ``app.stream(...)``, ``.sink(...)``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any, TypeAlias

import msgspec

from millstream.connect.kinds import meant
from millstream.connect.sinks import Transform
from millstream.connect.source_rejections import RefusedRecord, Transformed
from millstream.connect.sources import IntakeTransform
from millstream.errors import DefinitionError, MillstreamError
from millstream.foundation.blocks import Block, block_of, rows_of
from millstream.foundation.names import check_name
from millstream.foundation.typed_decoding import convert
from millstream.records import Record
from millstream.serdes import JSON, READABLE
from millstream.views.expressions import predicate as parse_expression

Change: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
NAMES = ("mask", "drop", "rename", "where", "route")


def transform_of(what: str, steps: Sequence[Mapping[str, Any]]) -> Transform | None:
    """Return what applies the steps of a sink, in order; None if there are none."""
    if not steps:
        return None
    compiled = [_step(what, step) for step in steps]

    def transform(record: Record[Any, Any]) -> Record[Any, Any] | None:
        for step in compiled:
            changed = step(record)
            if changed is None:
                return None
            record = changed
        return record

    return transform


def intake_transform_of(what: str, steps: Sequence[Mapping[str, Any]]) -> IntakeTransform | None:
    """Return what applies the steps of a source to its blocks; ``route`` changes the topic of records."""
    transform = transform_of(what, steps)
    if transform is None:
        return None

    def apply(records: Mapping[str, Block]) -> Transformed:
        by_topic: dict[str, list[Record[Any, Any]]] = {}
        rejected: list[RefusedRecord] = []
        for topic, block in records.items():
            keys, values, timestamps, headers = rows_of(block)
            for row, (key, value, timestamp) in enumerate(zip(keys, values, timestamps, strict=True)):
                pairs = () if headers is None else headers[row]
                is_decoded = False
                try:
                    item = None if value is None else JSON.decode(value)
                    is_decoded = True
                    changed = transform(Record(topic, 0, 0, key, item, timestamp, pairs))
                except Exception as error:  # of a value that the steps cannot handle
                    rejected.append(
                        RefusedRecord(topic, key, value, timestamp, pairs, error, is_decode_error=not is_decoded)
                    )
                else:
                    if changed is not None:
                        by_topic.setdefault(changed.topic, []).append(changed)
        return Transformed({topic: _block(rows) for topic, rows in by_topic.items()}, rejected)

    return apply


def _block(rows: Sequence[Record[Any, Any]]) -> Block:
    values = [None if row.value is None else JSON.encode(row.value) for row in rows]
    headers = [row.headers for row in rows] if any(row.headers for row in rows) else None
    return block_of([row.key for row in rows], values, [row.timestamp for row in rows], headers)


def _step(what: str, step: Mapping[str, Any]) -> Transform:
    if len(step) != 1:
        raise DefinitionError(
            f"a transform of {what} is {step!r:.60}", hint='write one of them per entry: { mask = ["email"] }'
        )
    [(name, argument)] = step.items()
    if name not in NAMES:
        raise DefinitionError(f"unknown transform {name!r} of {what}", hint=meant(name, NAMES))
    if name == "where":
        return _where(what, argument)
    if name == "route":
        return _route(what, argument)
    if name == "rename":
        names = _checked(what, name, argument, dict[str, str])
        return _changing(lambda value: {names.get(field, field): item for field, item in value.items()})
    fields = set(_checked(what, name, argument, list[str]))
    if name == "drop":
        return _changing(lambda value: {field: item for field, item in value.items() if field not in fields})
    return _changing(lambda value: {field: _masked(item) if field in fields else item for field, item in value.items()})


def _checked(what: str, name: str, argument: Any, kind: Any) -> Any:
    try:
        return convert(argument, kind)
    except msgspec.ValidationError as error:
        raise DefinitionError(
            f"transform {name!r} of {what} is not valid: {error}", hint="see docs/connect/README.md"
        ) from error


def _changing(change: Change) -> Transform:
    """Apply a change to values that are objects; tombstones and other values pass."""

    def transform(record: Record[Any, Any]) -> Record[Any, Any]:
        if not isinstance(record.value, dict):
            return record
        return msgspec.structs.replace(record, value=change(record.value))

    return transform


def _masked(item: Any) -> Any:
    """Return a short hash, so that equal values stay equal; a null stays null."""
    return None if item is None else hashlib.sha256(msgspec.json.encode(item)).hexdigest()[:16]


def _where(what: str, argument: Any) -> Transform:
    try:
        predicate = parse_expression(_checked(what, "where", argument, str))
    except MillstreamError as error:
        raise DefinitionError(f"transform 'where' of {what} is not valid: {error.message}", hint=error.hint) from error

    def transform(record: Record[Any, Any]) -> Record[Any, Any] | None:
        """Keep tombstones: the key may have had a row that was kept."""
        if record.value is None:
            return record
        key = None if record.key is None else READABLE.encode(record.key)
        raw = msgspec.structs.replace(record, key=key, value=JSON.encode(record.value))
        return record if predicate(raw) else None

    return transform


def routed(topic: str, steps: Sequence[Mapping[str, Any]]) -> str:
    """Return the topic that the steps of a source write to instead of its own."""
    for step in steps:
        topic = _renamed(topic, step["route"]) if "route" in step else topic
    return topic


def _renamed(topic: str, template: str) -> str:
    return check_name("topic", template.format(topic=topic))


def _route(what: str, argument: Any) -> Transform:
    template: str = _checked(what, "route", argument, str)
    fields = {field for _, field, _, _ in Formatter().parse(template) if field is not None}
    if fields != {"topic"}:
        raise DefinitionError(
            f"transform 'route' of {what} is {template!r:.60}",
            hint='it names the topic by the old one, such as "eu.{topic}"; a deleted row has no fields to route by',
        )
    return lambda record: msgspec.structs.replace(record, topic=_renamed(record.topic, template))
