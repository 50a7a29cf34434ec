"""CREATE STREAM and CREATE TABLE: from a declaration to a relation."""

from __future__ import annotations

from millstream.sql.catalog import REGISTRY_FORMATS, Catalog, Columns, Format, Relation
from millstream.sql.checks import check_key_type
from millstream.sql.nodes import ColumnDefinition, CreateSource
from millstream.sql.problems import Problem
from millstream.sql.properties import With, check_format
from millstream.sql.translate.inferring import inferred, needs_registry
from millstream.sql.translate.names import HEADERS, SYSTEM
from millstream.sql.types import BYTES


def relation_of(statement: CreateSource, catalog: Catalog) -> Relation:
    """Return the relation that a statement declares."""
    properties = With(statement.properties, catalog.settings, statement.start, is_source=True)
    topic = properties.text("KAFKA_TOPIC")
    if topic is None:
        raise properties.refuse("KAFKA_TOPIC is missing", "add WITH (KAFKA_TOPIC = '…', VALUE_FORMAT = 'JSON')")
    _check_columns(statement)
    keys, key_format = _key(properties, statement, catalog, topic)
    values, value_format = _value(properties, statement, catalog, topic)
    headers = {column.name: column.header for column in statement.columns if column.role.startswith("HEADER")}
    if not keys and not values and not headers and value_format.name != "NONE":
        raise properties.refuse("no columns are declared", "add them: (id INTEGER KEY, name STRING)")
    if statement.kind == "TABLE" and not keys:
        raise Problem(statement.start, "a table needs a primary key", "add PRIMARY KEY to a column")
    for name in {*keys} & {*values}:
        raise properties.refuse(f"column {name} is both in the key and in the value", "declare the columns")
    window = properties.window()
    if window is not None and not keys:
        raise properties.refuse("windows need a key", "declare a KEY column")
    timestamp, pattern = properties.check_timestamp({**keys, **values})
    return Relation(
        name=statement.name,
        kind=statement.kind,
        topic=topic,
        keys=keys,
        values=values,
        headers=headers,
        key_format=key_format,
        value_format=value_format,
        window=window,
        timestamp=timestamp,
        timestamp_format=pattern,
        on_invalid="fail" if catalog.settings.get("ksql.timestamp.throw.on.invalid", "").lower() == "true" else "skip",
        partitions=properties.whole("PARTITIONS"),
        history=properties.history(statement.kind, window),
        is_read_only=statement.is_source,
        registry=catalog.registry,
    )


def _key(properties: With, statement: CreateSource, catalog: Catalog, topic: str) -> tuple[Columns, Format]:
    """Return the columns of the key, declared or inferred, and its format."""
    declared: Columns = {column.name: column.type for column in statement.columns if "KEY" in column.role}
    name = properties.format_name("KEY") or properties.default_format("KEY") or "KAFKA"
    if name not in REGISTRY_FORMATS:
        return declared, _key_format(properties, declared, statement)
    format = properties.format("KEY", name)
    if declared and format.schema_id is not None:
        raise properties.refuse("KEY_SCHEMA_ID is given, but the key is declared", "remove one of them")
    needs_registry(properties, format, catalog)
    columns = declared or inferred(properties, format, topic, catalog.registry, part="KEY") or {}
    if not columns and properties.text("KEY_FORMAT") is not None:
        raise properties.refuse(f"the registry has no schema for the key of {topic!r}", "declare a KEY column")
    check_format(format, columns, statement.start, "key")
    return columns, format


def _value(properties: With, statement: CreateSource, catalog: Catalog, topic: str) -> tuple[Columns, Format]:
    """Return the columns of the value, declared or inferred, and its format."""
    declared: Columns = {column.name: column.type for column in statement.columns if not column.role}
    name = properties.format_name("VALUE") or properties.default_format("VALUE")
    if name is None:
        raise properties.refuse("VALUE_FORMAT is missing", "add VALUE_FORMAT = 'JSON'")
    format = properties.format("VALUE", name, properties.wrapping(name, declared))
    if declared and format.schema_id is not None:
        raise properties.refuse("VALUE_SCHEMA_ID is given, but columns are declared", "remove one of them")
    columns = declared
    if format.is_registered:
        needs_registry(properties, format, catalog)
        columns = declared or inferred(properties, format, topic, catalog.registry, part="VALUE") or {}
        if not columns:
            raise properties.refuse(f"the registry has no schema for the value of {topic!r}", "declare columns")
    check_format(format, columns, statement.start, "value")
    return columns, format


def _key_format(properties: With, keys: Columns, statement: CreateSource) -> Format:
    given = properties.format_name("KEY")
    name = given or properties.default_format("KEY") or "KAFKA"
    if not keys:
        if properties.text("KEY_FORMAT") is not None and given not in ("NONE", "KAFKA"):
            raise properties.refuse("KEY_FORMAT is given, but there is no KEY column", "declare one, or remove it")
        return properties.format("KEY", name)
    format = properties.format("KEY", name)
    check_format(format, keys, statement.start, "key")
    return format


def _check_columns(statement: CreateSource) -> None:
    names: set[str] = set()
    for column in statement.columns:
        if column.name in names:
            raise Problem(column.offset, f"column {column.name} is declared twice", "rename one")
        if column.name in SYSTEM:
            raise Problem(column.offset, f"{column.name} is a reserved name", "rename the column")
        names.add(column.name)
        _check_role(column, statement)
    headers = [column for column in statement.columns if column.role == "HEADER"]
    for number, column in enumerate(headers):
        if any(column.header == other.header for other in headers[:number]):
            raise Problem(column.offset, f"HEADER('{column.header}') is declared twice", "remove one")


def _check_role(column: ColumnDefinition, statement: CreateSource) -> None:
    wanted = "KEY" if statement.kind == "STREAM" else "PRIMARY KEY"
    if "KEY" in column.role:
        if column.role != wanted:
            raise Problem(column.offset, f"{column.role} is not for a {statement.kind.lower()}", f"use {wanted}")
        check_key_type(column.type, column.offset)
    expected = {"HEADERS": HEADERS, "HEADER": BYTES}.get(column.role)
    if expected is not None and str(column.type) != str(expected):
        raise Problem(column.offset, f"{column.role} must be {expected}, not {column.type}", "change its type")
    if column.role == "HEADERS" and sum(each.role.startswith("HEADER") for each in statement.columns) > 1:
        raise Problem(column.offset, "HEADERS contains all headers, so it must be the only column of headers")
