"""Functions of JSON text."""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from decimal import Decimal
from typing import Any

from millstream.sql.functions.registry import function
from millstream.sql.values import as_text

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\*)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_MISSING: Any = object()


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse_constant)


def _parsed(text: str) -> Any:
    return _DECODER.raw_decode(text.lstrip())[0]  # what follows is ignored, as in ksqlDB


def _written(value: Any) -> str:
    """Return a value as compact JSON text."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(as_text(key))}:{_written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    if isinstance(value, bytes):
        return json.dumps(base64.b64encode(value).decode())
    if value is None or isinstance(value, bool | int | float | Decimal):
        return as_text(value) if value is not None else "null"
    text = value.isoformat() if type(value) is dt.date else as_text(value)
    return json.dumps(text, ensure_ascii=False)


def _as_column(value: Any) -> str | None:
    if value is None or value is _MISSING:
        return None
    return value if isinstance(value, str) else _written(value)


def _step(value: Any, name: str) -> Any:
    if isinstance(value, list) and name.isdigit():
        return value[int(name)] if int(name) < len(value) else _MISSING
    return value.get(name, _MISSING) if isinstance(value, dict) else _MISSING


@function("EXTRACTJSONFIELD GET_JSON_OBJECT", "STRING, STRING -> STRING")
def _extract(text: str, path: str) -> str | None:
    if not path.startswith("$"):
        raise ValueError(f"path {path!r} does not begin with $")
    if _STEP.sub("", path) != "$":
        return None
    value = _parsed(text)
    for match in _STEP.finditer(path):
        value = _step(value, next(group for group in match.groups() if group is not None))
        if value is _MISSING:
            return None
    return _as_column(value)


@function("IS_JSON_STRING", "STRING -> BOOLEAN", nulls=True)
def _is_json(text: str | None) -> bool:
    try:
        return text is not None and (_parsed(text), True)[1]
    except (ValueError, RecursionError):
        return False


@function("JSON_ARRAY_LENGTH", "STRING -> INTEGER")
def _json_array_length(text: str) -> int | None:
    value = _parsed(text)
    return len(value) if isinstance(value, list) else None


@function("JSON_ARRAY_CONTAINS", "STRING, T -> BOOLEAN", nulls=True)
def _json_array_contains(text: str | None, value: Any) -> bool:
    if text is None:
        return False
    try:
        values = _parsed(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(values, list) and any(
        item == value and isinstance(item, bool) == isinstance(value, bool) for item in values
    )


@function("JSON_KEYS JSON_OBJECT_KEYS", "STRING -> ARRAY<STRING>")
def _json_keys(text: str) -> list[str] | None:
    value = _parsed(text)
    return list(value) if isinstance(value, dict) else None


@function("JSON_RECORDS", "STRING -> MAP<STRING, STRING>")
def _json_records(text: str) -> dict[str, str | None] | None:
    value = _parsed(text)
    return {key: _as_column(item) for key, item in value.items()} if isinstance(value, dict) else None


@function("JSON_ITEMS", "STRING -> ARRAY<STRING>")
def _json_items(text: str) -> list[str | None]:
    value = _parsed(text)
    if not isinstance(value, list):
        raise ValueError(f"{text:.60} is not a JSON array")
    return [_written(item) for item in value]


@function("JSON_CONCAT", "STRING, STRING... -> STRING", nulls=True)
def _json_concat(*texts: str | None) -> str | None:
    if any(text is None for text in texts):
        return None
    values = [_parsed(text or "") for text in texts]
    if all(isinstance(value, dict) for value in values):
        return _written({key: item for value in values for key, item in value.items()})
    lists = [value if isinstance(value, list) else [value] for value in values]
    return _written([item for value in lists for item in value])


@function("TO_JSON_STRING TO_JSON", "T -> STRING", nulls=True)
def _to_json(value: Any) -> str:
    return _written(value)
