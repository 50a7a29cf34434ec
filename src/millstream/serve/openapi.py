"""The OpenAPI document, made from the operations themselves, so that it cannot say something else than they do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from millstream.serve.answers import Failure
from millstream.serve.operations import Operation

_REF = "#/components/schemas/{name}"
_PROBLEMS = {
    "400": "The request does not fit.",
    "401": "The token is missing or wrong.",
    "403": "The CSRF token is missing, or the request comes from a foreign page.",
    "404": "There is no such thing.",
    "409": "It cannot be done in the present state.",
    "413": "The request or the record is too large.",
    "414": "The address is too long.",
    "415": "The body is not announced as JSON.",
    "429": "Too many of them at once.",
    "503": "The log or the state cannot be reached now.",
    "507": "The disk is full.",
}


def openapi_document(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the document for all operations."""
    listed = list(operations)
    types = [Failure, *(one.params for one in listed), *(one.body for one in listed if one.body is not None)]
    types += [one.answer for one in listed if one.answer is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = {id(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for one in listed:
        path = re.sub(r"\{(\w+):\w+\}", r"{\1}", one.path)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one, schema_of, components)
    used = {name for name in components if not _is_of_parameters(name, listed)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Millstream",
            "version": version("millstream"),
            "description": "Topics, tables, groups and apps of one data directory. Reads never wait for a running app.",
        },
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name in used},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "csrf": {"type": "apiKey", "in": "header", "name": "X-CSRF-Token"},
            },
        },
        "security": [{}, {"token": []}],
    }


def _operation(one: Operation, schema_of: dict[int, Any], components: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary,
        "tags": [one.path.split("/")[2].partition(".")[0]],
        "parameters": list(_parameters(one, components)),
        "responses": {
            "200": {
                "description": "Done.",
                "content": {kind: {"schema": _schema_of(one, kind, schema_of)} for kind in one.media_types},
            },
            **{
                status: {
                    "description": meaning,
                    "content": {"application/json": {"schema": schema_of[id(Failure)]}},
                }
                for status, meaning in _PROBLEMS.items()
            },
        },
    }
    if one.body is not None:
        content = {"application/json": {"schema": schema_of[id(one.body)]}}
        described["requestBody"] = {"required": True, "content": content}
        described["security"] = [{"csrf": []}, {"token": []}]
    return described


def _schema_of(one: Operation, media_type: str, schema_of: dict[int, Any]) -> Any:
    is_json = media_type == "application/json" and one.answer is not None
    return schema_of[id(one.answer)] if is_json else {"type": "string"}


def _parameters(one: Operation, components: dict[str, Any]) -> Iterable[dict[str, Any]]:
    schema = components.get(one.params.__name__, {})
    required: Sequence[str] = schema.get("required", ())
    for name, described in schema.get("properties", {}).items():
        in_path = name in one.path_parameters
        kind = {key: value for key, value in described.items() if key != "description"}
        if in_path and kind.get("type") == "string":
            kind.setdefault("minLength", 1)
        yield {
            "name": name,
            "in": "path" if in_path else "query",
            "required": in_path or name in required,
            "schema": kind,
            **({"description": described["description"]} if "description" in described else {}),
        }


def _is_of_parameters(name: str, operations: list[Operation]) -> bool:
    return any(one.params.__name__ == name for one in operations)
