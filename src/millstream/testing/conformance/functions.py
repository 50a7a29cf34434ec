"""The functions that conformance cases refer to: predicates, mappers, listers, joiners and aggregators.

They are written as ``name`` or ``name:argument``; k is the key, v the value. The text of null is ``null``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from millstream.errors import DefinitionError
from millstream.records import Windowed

Call = Callable[..., Any]
_DECIMAL = re.compile(r"-?[0-9]+")


def text(value: Any) -> str:
    """Return the text of a key or value in the format of the cases."""
    if value is None:
        return "null"
    if isinstance(value, Windowed):
        return f"[{text(value.key)}@{value.start}/{value.end}]"
    return str(value)


def _decimal(value: Any) -> int:
    if not _DECIMAL.fullmatch(text(value)):
        raise ValueError(f"not a decimal number: {text(value)}")
    return int(text(value))


def _part(value: Any, separator: str, number: str) -> str | None:
    parts = text(value).split(separator)
    return parts[int(number)] if int(number) < len(parts) else None


def _fail_if(fails: bool, result: Any) -> Any:
    if fails:
        raise ValueError("the case makes this text fail")
    return result


def _unless_null(function: Callable[[Any, Any, str], Any]) -> Callable[[Any, Any, str], Any]:
    """Return null for a null value."""
    return lambda k, v, x: None if v is None else function(k, v, x)


PREDICATES: dict[str, Callable[[Any, Any, str], bool]] = {
    "all": lambda k, v, x: True,
    "none": lambda k, v, x: False,
    "value_null": lambda k, v, x: v is None,
    "key_null": lambda k, v, x: k is None,
    "value_contains": lambda k, v, x: v is not None and x in text(v),
    "value_len_gt": lambda k, v, x: v is not None and len(text(v)) > int(x),
    "value_in": lambda k, v, x: v is not None and text(v) in x.split(","),
    "key_in": lambda k, v, x: k is not None and text(k) in x.split(","),
    "value_even": lambda k, v, x: v is not None and _decimal(v) % 2 == 0,
}

MAPPERS: dict[str, Callable[[Any, Any, str], Any]] = {
    "key": lambda k, v, x: None if k is None else text(k),
    "value": lambda k, v, x: v,
    "value_text": _unless_null(lambda k, v, x: text(v)),
    "null": lambda k, v, x: None,
    "const": lambda k, v, x: x,
    "upper": _unless_null(lambda k, v, x: text(v).upper()),
    "append": _unless_null(lambda k, v, x: text(v) + x),
    "text_append": lambda k, v, x: text(v) + x,
    "len": _unless_null(lambda k, v, x: str(len(text(v)))),
    "first_char": _unless_null(lambda k, v, x: text(v)[:1] or None),
    "key_first_char": lambda k, v, x: None if k is None else text(k)[:1] or None,
    "key_char": lambda k, v, x: None if k is None else text(k)[int(x)],
    "key_append": lambda k, v, x: None if k is None else text(k) + x,
    "key_value": lambda k, v, x: f"{text(k)}:{text(v)}",
    "null_if_contains": _unless_null(lambda k, v, x: None if x in text(v) else v),
    "key_null_if_contains": lambda k, v, x: None if k is None or x in text(k) else text(k),
    "value_unless_key_in": _unless_null(lambda k, v, x: None if k is not None and text(k) in x.split(",") else text(v)),
    "value_field": _unless_null(lambda k, v, x: _part(v, "|", x)),
    "comma_field": _unless_null(lambda k, v, x: _part(v, ",", x)),
    "value_field_not": _unless_null(lambda k, v, x: _field_not(v, *x.split(":", 1))),
    "fail_if_contains": lambda k, v, x: _fail_if(x in text(v), v),
}

LISTERS: dict[str, Callable[[Any, Any, str], list[Any]]] = {
    "split_chars": lambda k, v, x: [] if v is None else list(text(v)),
    "split_fields": lambda k, v, x: [] if v is None else text(v).split("|"),
    "twice": lambda k, v, x: [v, v],
    "empty": lambda k, v, x: [],
    "drop_if_contains": lambda k, v, x: [] if v is not None and x in text(v) else [v],
}

JOINERS: dict[str, Callable[[Any, Any, Any, str], Any]] = {
    "concat": lambda k, left, right, x: text(left) + (x or "+") + text(right),
    "pair": lambda k, left, right, x: f"({text(left)},{text(right)})",
    "concat_key": lambda k, left, right, x: f"{text(k)}:{text(left)}+{text(right)}",
    "left": lambda k, left, right, x: left,
    "right": lambda k, left, right, x: right,
    "null_if_contains": lambda k, left, right, x: None if x in _both(left, right, "") else _both(left, right, "+"),
    "fail_if_contains": lambda k, left, right, x: _fail_if(x in _both(left, right, ""), _both(left, right, "+")),
}

AGGREGATORS: dict[str, Callable[[Any, Any, Any, str], Any]] = {
    "concat_plus": lambda k, g, v, x: _both(g, v, "+"),
    "append": lambda k, g, v, x: _both(g, v, ""),
    "minus": lambda k, g, v, x: _both(g, v, "-"),
    "erase": lambda k, g, v, x: text(g).replace(text(v), ""),
    "remove_last_occurrence": lambda k, g, v, x: "".join(_around_last(text(g), "+" + text(v))),
    "max": lambda k, g, v, x: g if v is None or text(g) >= text(v) else text(v),
    "min": lambda k, g, v, x: g if v is None or text(g) <= text(v) else text(v),
    "latest": lambda k, g, v, x: v,
    "sum_len": lambda k, g, v, x: str(_decimal(g) + len(text(v))),
    "sub_len": lambda k, g, v, x: str(_decimal(g) - len(text(v))),
    "sum": lambda k, g, v, x: str(_decimal(g) + _decimal(v)),
    "sorted_chars": lambda k, g, v, x: "".join(sorted(_both(g, v, ""))),
    "concat_or_null": lambda k, g, v, x: None if x in text(v) else _both(g, v, "+"),
    "with_key": lambda k, g, v, x: f"{text(g)}+{text(k)}={text(v)}",
    "fail_if_contains": lambda k, g, v, x: _fail_if(x in text(v), _both(g, v, "+")),
}


def _both(left: Any, right: Any, separator: str) -> str:
    return text(left) + separator + text(right)


def _field_not(value: Any, number: str, excluded: str) -> str | None:
    field = _part(value, "|", number)
    return None if field == excluded else field


def _around_last(value: str, part: str) -> tuple[str, str]:
    before, separator, after = value.rpartition(part)
    return (before, after) if separator else (value, "")


def look_up(family: dict[str, Any], reference: str) -> tuple[Any, str]:
    """Return the function and the argument of a reference such as ``name`` or ``name:argument``."""
    name, _, argument = reference.partition(":")
    if name not in family:
        raise DefinitionError(f"unknown function {name!r} in a conformance case", hint="see FORMAT.md")
    return family[name], argument


def of_pair(family: dict[str, Any], reference: str) -> Callable[[Any, Any], Any]:
    """Return a predicate, mapper or lister as a function of key and value."""
    function, argument = look_up(family, reference)
    return lambda k, v: function(k, v, argument)


def of_three(family: dict[str, Any], reference: str) -> Callable[[Any, Any, Any], Any]:
    """Return a joiner or aggregator as a function of key and two values."""
    function, argument = look_up(family, reference)
    return lambda k, left, right: function(k, left, right, argument)
