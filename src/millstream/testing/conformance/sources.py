"""How conformance cases read topics: as text or numbers, with computed timestamps."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from millstream.functions import Context
from millstream.serdes import TEXT
from millstream.testing.conformance.functions import look_up, text

_DECIMAL = re.compile(r"-?[0-9]+")


class NumberText:
    """An integer written as text; other text cannot be decoded."""

    __slots__ = ()
    name = "number"

    @staticmethod
    def encode(value: Any) -> bytes:
        return text(value).encode()

    @staticmethod
    def decode(data: bytes) -> int:
        if not _DECIMAL.fullmatch(data.decode()):
            raise ValueError(f"{data.decode()!r} is not a number")
        return int(data)


def _field(value: Any, number: str) -> int:
    parts = text(value).split("|")
    field = parts[int(number)] if value is not None and int(number) < len(parts) else ""
    return int(field) if _DECIMAL.fullmatch(field) else -1


EXTRACTORS: dict[str, Callable[[Any, Context, str], int]] = {
    "value_field": lambda value, _context, number: _field(value, number),
    "record_shift": lambda _value, context, by: context.timestamp + int(by),
}


def source_serdes(node: dict[str, Any]) -> dict[str, Any]:
    """Return the serdes of a source."""
    return {"key": TEXT, "value": NumberText() if node.get("value_type") == "number" else TEXT}


def source_settings(node: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``stream()`` and ``table()`` for a source."""
    settings = source_serdes(node)
    if "timestamp" in node:
        function, argument = look_up(EXTRACTORS, node["timestamp"])
        settings["timestamp"] = lambda _key, value, context: function(value, context, argument)
        settings["on_invalid"] = node.get("on_invalid", "fail")
    return settings


def reads(node: dict[str, Any], topic: str) -> bool:
    """Whether a node of a case is a source that reads a topic."""
    if "in" in node:
        return False
    if "pattern" in node:
        return re.fullmatch(node["pattern"], topic) is not None
    return topic in node.get("topics", [node.get("topic")])
