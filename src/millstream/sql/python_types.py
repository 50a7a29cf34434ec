"""The SQL types of Python's types."""

from __future__ import annotations

import inspect as python_inspect
from typing import Any

from msgspec import inspect

from millstream.sql.types import BIGINT, BOOLEAN, BYTES, DATE, DOUBLE, STRING, TIME, TIMESTAMP, Type, array, map_of

_INFO: dict[type, Type] = {
    inspect.BoolType: BOOLEAN, inspect.IntType: BIGINT, inspect.FloatType: DOUBLE, inspect.StrType: STRING,
    inspect.BytesType: BYTES, inspect.DateType: DATE, inspect.TimeType: TIME, inspect.DateTimeType: TIMESTAMP,
    inspect.DecimalType: Type("DECIMAL"),
}  # fmt: skip


def sql_type(info: Any) -> Type | None:
    """Return the SQL type of a type that msgspec has inspected, None if SQL has none."""
    if isinstance(info, inspect.UnionType):
        kinds = [each for each in info.types if not isinstance(each, inspect.NoneType)]
        return sql_type(kinds[0]) if len(kinds) == 1 else None
    if type(info) in _INFO:
        return _INFO[type(info)]
    if isinstance(info, inspect.ListType):
        item = sql_type(info.item_type)
        return None if item is None else array(item)
    if isinstance(info, inspect.DictType):
        key, value = sql_type(info.key_type), sql_type(info.value_type)
        return None if key is None or value is None else map_of(key, value)
    return None


def annotation_type(annotation: Any) -> tuple[Type | None, bool]:
    """Return the SQL type of an annotation, and whether it allows null.

    >>> annotation_type(list[int] | None)
    (Type(kind='ARRAY', items=(Type(kind='BIGINT', items=(), names=(), precision=0, scale=0),), ...), True)
    """
    if annotation is python_inspect.Parameter.empty or annotation is Any:
        return None, False
    info = inspect.type_info(annotation)
    nullable = isinstance(info, inspect.UnionType) and info.includes_none
    return sql_type(info), nullable
