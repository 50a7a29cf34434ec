"""Compare the catalog with what a case expects of it afterwards."""

from __future__ import annotations

from typing import Any

from millstream.errors import SqlError
from millstream.sql.catalog import Catalog, Columns, Relation
from millstream.sql.nodes import CreateSource
from millstream.sql.parser.statements import parse


def wrong_sources(post: dict[str, Any] | None, catalog: Catalog) -> str:
    """Return what is wrong with the sources of a catalog, empty if nothing is."""
    for source in (post or {}).get("sources", ()):
        relation = catalog.relations.get(source["name"])
        if relation is None:
            return f"source {source['name']} does not exist"
        if relation.kind != source["type"].upper():
            return f"{relation.name} is a {relation.kind}"
        schema = source.get("schema")
        if schema and (wrong := _wrong_columns(schema, relation)):
            return wrong
    return ""


def _wrong_columns(schema: str, relation: Relation) -> str:
    try:
        [statement] = parse(f"CREATE STREAM s ({schema});")
    except SqlError:
        return ""  # not written as a declaration
    assert isinstance(statement, CreateSource)
    keys: Columns = {column.name: column.type for column in statement.columns if "KEY" in column.role}
    values: Columns = {column.name: column.type for column in statement.columns if not column.role}
    if _names(keys) != _names(relation.keys) or _names(values) != _names(relation.values):
        return f"{relation.name} has ({relation.schema}), not ({schema})"
    return ""


def _names(columns: Columns) -> list[tuple[str, str]]:
    return [(name.upper(), str(type).upper()) for name, type in columns.items()]
