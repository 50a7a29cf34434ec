"""CREATE STREAM and CREATE TABLE: from a declaration to a relation."""

from __future__ import annotations

from millstream.sql.catalog import Catalog, Columns, Format, Relation
from millstream.sql.checks import check_key_type
from millstream.sql.nodes import ColumnDefinition, CreateSource
from millstream.sql.problems import Problem
from millstream.sql.properties import With, check_format
from millstream.sql.translate.names import HEADERS, SYSTEM
from millstream.sql.types import BYTES


def relation_of(statement: CreateSource, catalog: Catalog) -> Relation:
    """Return the relation that a statement declares."""
    properties = With(statement.properties, catalog.settings, statement.start, is_source=True)
    topic = properties.text("KAFKA_TOPIC")
    if topic is None:
        raise properties.refuse("KAFKA_TOPIC is missing", "add WITH (KAFKA_TOPIC = '…', VALUE_FORMAT = 'JSON')")
    _check_columns(statement)
    keys = {column.name: column.type for column in statement.columns if "KEY" in column.role}
    values = {column.name: column.type for column in statement.columns if not column.role}
    headers = {column.name: column.header for column in statement.columns if column.role.startswith("HEADER")}
    key_format = _key_format(properties, keys, statement)
    value_name = properties.format_name("VALUE") or properties.default_format("VALUE")
    if value_name is None:
        raise properties.refuse("VALUE_FORMAT is missing", "add VALUE_FORMAT = 'JSON'")
    value_format = Format(
        value_name, properties.delimiter("VALUE", value_name), properties.wrapping(value_name, values)
    )
    check_format(value_format, values, statement.start, "value")
    if not statement.columns and value_name != "NONE":
        raise properties.refuse("no columns are declared", "add them: (id INTEGER KEY, name STRING)")
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
        is_read_only=statement.is_source,
    )


def _key_format(properties: With, keys: Columns, statement: CreateSource) -> Format:
    given = properties.format_name("KEY")
    name = given or properties.default_format("KEY") or "KAFKA"
    if not keys:
        if properties.text("KEY_FORMAT") is not None and given != "NONE":
            raise properties.refuse("KEY_FORMAT is given, but there is no KEY column", "declare one, or remove it")
        return Format(name, properties.delimiter("KEY", name))
    format = Format(name, properties.delimiter("KEY", name))
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
    if statement.kind == "TABLE" and not any(column.role == "PRIMARY KEY" for column in statement.columns):
        raise Problem(statement.start, "a table needs a primary key", "add PRIMARY KEY to a column")


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
