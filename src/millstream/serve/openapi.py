"""The OpenAPI document, generated from the operations, so that both always agree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from millstream.serve.operations import Operation
from millstream.serve.responses import ErrorResponse

_REF = "#/components/schemas/{name}"
_ERRORS = {
    "400": "The request is invalid.",
    "401": "The token is missing or wrong.",
    "403": "The CSRF token is missing, or the request comes from another site.",
    "404": "Not found.",
    "409": "The operation is not possible in the current state.",
    "413": "The request or the record is too large.",
    "414": "The URL is too long.",
    "415": "The content type of the body is not JSON.",
    "429": "Too many concurrent streams.",
    "503": "The log or the state is currently unavailable.",
    "507": "The disk is full.",
}


def openapi_document(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the document for all operations."""
    operations = list(operations)
    types = [ErrorResponse, *(operation.params for operation in operations)]
    types += [operation.body for operation in operations if operation.body is not None]
    types += [operation.result for operation in operations if operation.result is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = {id(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        path = re.sub(r"\{(\w+):\w+\}", r"{\1}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _describe(operation, schema_of, components)
    params = {operation.params.__name__ for operation in operations}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Millstream",
            "version": version("millstream"),
            "description": "Topics, tables, groups and apps of one data directory. Reads never block a running app.",
        },
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in params},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "csrf": {"type": "apiKey", "in": "header", "name": "X-CSRF-Token"},
            },
        },
        "security": [{}, {"token": []}],
    }


def _describe(operation: Operation, schema_of: dict[int, Any], components: dict[str, Any]) -> dict[str, Any]:
    content = {kind: {"schema": _schema_of(operation, kind, schema_of)} for kind in operation.media_types}
    error_content = {"application/json": {"schema": schema_of[id(ErrorResponse)]}}
    description: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.path.split("/")[2].partition(".")[0]],
        "parameters": list(_parameters(operation, components)),
        "responses": {
            "200": {"description": "Success.", "content": content},
            **{status: {"description": text, "content": error_content} for status, text in _ERRORS.items()},
        },
    }
    if operation.body is not None:
        body = {"application/json": {"schema": schema_of[id(operation.body)]}}
        description["requestBody"] = {"required": True, "content": body}
        description["security"] = [{"csrf": []}, {"token": []}]
    return description


def _schema_of(operation: Operation, media_type: str, schema_of: dict[int, Any]) -> Any:
    is_json = media_type == "application/json" and operation.result is not None
    return schema_of[id(operation.result)] if is_json else {"type": "string"}


def _parameters(operation: Operation, components: dict[str, Any]) -> Iterable[dict[str, Any]]:
    params = components.get(operation.params.__name__, {})
    required: Sequence[str] = params.get("required", ())
    for name, described in params.get("properties", {}).items():
        in_path = name in operation.path_parameters
        schema = {key: value for key, value in described.items() if key != "description"}
        if in_path and schema.get("type") == "string":
            schema.setdefault("minLength", 1)
        yield {
            "name": name,
            "in": "path" if in_path else "query",
            "required": in_path or name in required,
            "schema": schema,
            **({"description": described["description"]} if "description" in described else {}),
        }
