"""The cases of a file, one JSON object per line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

REGISTRY_FORMATS = frozenset({"AVRO", "PROTOBUF", "PROTOBUF_NOSR", "JSON_SR"})


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A case: statements, records in, records out or an error."""

    id: str
    suite: str
    group: str
    expects: str
    formats: list[str] = []
    statements: list[str] = []
    properties: dict[str, Any] | None = None
    topics: list[Any] = []
    inputs: list[dict[str, Any]] = []
    outputs: list[dict[str, Any]] = []
    expected_exception: dict[str, Any] | None = None
    post: dict[str, Any] | None = None
    responses: list[dict[str, Any]] = []
    input_conditions: dict[str, Any] | None = None

    @property
    def needs_registry(self) -> bool:
        return bool(REGISTRY_FORMATS & set(self.formats)) or any(_has_schema(topic) for topic in self.topics)

    @property
    def is_refusal(self) -> bool:
        return self.expects == "error"

    @property
    def text(self) -> str:
        return "\n".join(self.statements)


def _has_schema(topic: Any) -> bool:
    if not isinstance(topic, dict):
        return False
    formats = {str(topic.get("keyFormat")), str(topic.get("valueFormat"))}
    return any("chema" in key and topic[key] is not None for key in topic) or bool(formats & REGISTRY_FORMATS)


def read_cases(path: Path) -> Iterator[Case]:
    """Yield the cases of a file, which may be compressed; numbers keep their digits."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            data = json.loads(line, parse_float=Decimal)
            if data["expects"] != "disabled":
                data["expected_exception"] = data.pop("expectedException", None)
                data["input_conditions"] = data.pop("inputConditions", None)
                known = {field: data[field] for field in Case.__struct_fields__ if data.get(field) is not None}
                yield Case(**known)
