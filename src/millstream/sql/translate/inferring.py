"""Infer columns that a statement does not declare from the schemas in the registry."""

from __future__ import annotations

from millstream.sql.catalog import Catalog, Columns, Format
from millstream.sql.properties import With
from millstream.sql.registries import ENVIRONMENT, URL, RegistryAddress
from millstream.sql.rows.schemas import type_of_schema

_TYPES = {"AVRO": "AVRO", "PROTOBUF": "PROTOBUF", "JSON_SR": "JSON"}


def needs_registry(properties: With, format: Format, catalog: Catalog) -> None:
    """Reject a format with schemas if there is no registry."""
    if format.is_registered and catalog.registry is None:
        raise properties.refuse(
            f"format {format.name} needs a schema registry", f"SET '{URL}' = 'https://…' before, or set {ENVIRONMENT}"
        )


def inferred(
    properties: With, format: Format, topic: str, address: RegistryAddress | None, *, part: str
) -> Columns | None:
    """Return the columns of KEY or VALUE that the schema of a topic has, None if there is no such schema.

    Names are in upper case, unless the schema is given by its id: then they are as they are.
    """
    if not format.is_registered or address is None:
        return None
    registry = address.client
    if format.schema_id is not None:
        schema = registry.schema(format.schema_id)
    else:
        version = registry.version(f"{topic}-{part.lower()}")
        if version is None:
            return None
        schema = version[1]
    if schema.type != _TYPES[format.name]:
        raise properties.refuse(f"the schema of the {part.lower()} is {schema.type}", f"it is not for {format.name}")
    type = type_of_schema(format.name, schema.schema, format.full_name, registry.referenced(schema))
    if type is None:
        raise properties.refuse(f"the schema of the {part.lower()} of {topic!r} has no type that SQL knows")
    if type.kind != "STRUCT":
        if part == "VALUE" and format.is_wrapped is not False:
            raise properties.refuse("the schema of the value is not a record", "add WRAP_SINGLE_VALUE = false")
        return {"ROWKEY" if part == "KEY" else "ROWVAL": type}
    if (part == "KEY" and format.name != "PROTOBUF") or format.is_wrapped is False:
        return {"ROWKEY" if part == "KEY" else "ROWVAL": type}
    keeps_case = format.schema_id is not None
    return {name if keeps_case else name.upper(): type for name, type in type.fields.items()}
