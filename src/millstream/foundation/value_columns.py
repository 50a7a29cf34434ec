"""Values as columns of a data frame, one column per field."""

from __future__ import annotations

import importlib
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from millstream.errors import DefinitionError

_KEPT = (datetime, date, time, timedelta, Decimal, bytes)
"""Types that data frames have too; other objects become plain data."""


def fields_of(name: str, value: Any, prefix: str = "") -> dict[str, Any]:
    """Return the fields of a value by the names that they have in topics; a value without fields is one ``name``."""
    if isinstance(value, msgspec.Struct):  # field by field: defaults may be left out, and fields may be an array
        config = value.__struct_config__
        tag = {} if config.tag is None else {str(config.tag_field): config.tag}
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        plain: Any = {**tag, **{encoded: _plain(getattr(value, field)) for encoded, field in names}}
    else:
        plain = _plain(value)
    if isinstance(plain, dict) and plain:
        return {f"{prefix}{field}": cell for field, cell in plain.items()}
    return {name: plain}


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, builtin_types=_KEPT, str_keys=True, enc_hook=repr)


def spread(rows: list[dict[str, Any]], otherwise: list[str]) -> dict[str, list[Any]]:
    """Return the columns of rows, in the order in which they first appear; without rows, those of ``otherwise``."""
    names = dict.fromkeys(field for fields in rows for field in fields) or dict.fromkeys(otherwise)
    return {field: [fields.get(field) for fields in rows] for field in names}


def library(name: str, verb: str) -> Any:
    """Return an optional library, or say how to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise DefinitionError(
            f"{verb}() needs {name}, which is not installed",
            hint=f"install it with: pip install 'millstream[{name}]'",
        ) from error
