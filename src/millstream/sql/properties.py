"""The properties of WITH (…): which there are, and what they mean."""

from __future__ import annotations

import difflib
import re
from typing import Any

from millstream.sql.catalog import REGISTRY_FORMATS, Columns, Format, SourceWindow
from millstream.sql.nodes import Kind, Properties
from millstream.sql.parser.cursor import TokenCursor
from millstream.sql.problems import Problem
from millstream.sql.types import Type

FORMATS = ("JSON", "DELIMITED", "KAFKA", "NONE", "PROTOBUF_NOSR", *REGISTRY_FORMATS)
_WRAPPING = ("JSON", "JSON_SR", "AVRO")
"""The formats that can have a single column by itself."""
_COMMON = (
    "KAFKA_TOPIC", "VALUE_FORMAT", "KEY_FORMAT", "FORMAT", "PARTITIONS", "REPLICAS", "TIMESTAMP", "TIMESTAMP_FORMAT",
    "WRAP_SINGLE_VALUE", "VALUE_DELIMITER", "KEY_DELIMITER", "RETENTION_MS", "CLEANUP_POLICY", "KEY_SCHEMA_ID",
    "VALUE_SCHEMA_ID", "VALUE_AVRO_SCHEMA_FULL_NAME", "KEY_SCHEMA_FULL_NAME", "VALUE_SCHEMA_FULL_NAME",
    "KEY_PROTOBUF_NULLABLE_REPRESENTATION", "VALUE_PROTOBUF_NULLABLE_REPRESENTATION", "HISTORY",
)  # fmt: skip
_ONLY_SOURCES = ("WINDOW_TYPE", "WINDOW_SIZE", "SOURCED_BY_CONNECTOR")
_KAFKA_TYPES = ("INTEGER", "BIGINT", "DOUBLE", "STRING", "BYTES")
_PLAIN_NAMES = ("AVRO", "PROTOBUF", "PROTOBUF_NOSR")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")
_DELIMITERS = {"SPACE": " ", "TAB": "\t"}


class With:
    """The properties of a statement with their checks."""

    def __init__(self, properties: Properties, settings: dict[str, str], offset: int, *, is_source: bool) -> None:
        self._given = properties
        self._settings = settings
        self._offset = offset
        known = (*_COMMON, *_ONLY_SOURCES) if is_source else _COMMON
        for name in properties:
            if name not in known:
                similar = difflib.get_close_matches(name, known, 1)
                hint = f"did you mean {similar[0]}?" if similar else f"known are {', '.join(known)}"
                raise Problem(offset, f"property {name} is unknown", hint)
        if "FORMAT" in properties:
            for other in ("KEY_FORMAT", "VALUE_FORMAT"):
                if other in properties:
                    raise Problem(offset, f"FORMAT and {other} exclude each other", "FORMAT sets both formats")

    def text(self, name: str) -> str | None:
        """Return a property as text."""
        value = self._given.get(name)
        return None if value is None else str(value)

    def refuse(self, message: str, hint: str | None = None) -> Problem:
        """Return the refusal of a property."""
        return Problem(self._offset, message, hint)

    def format_name(self, part: str) -> str | None:
        """Return the name of the format of KEY or VALUE, None if none is given."""
        given = self.text(f"{part}_FORMAT") or self.text("FORMAT")
        if given is None:
            return None
        return self._checked(given.upper())

    def default_format(self, part: str) -> str | None:
        """Return the format that the settings define for KEY or VALUE."""
        default = self._settings.get(f"ksql.persistence.default.format.{part.lower()}")
        return "KAFKA" if default is None and part == "KEY" else default and self._checked(default.upper())

    def _checked(self, name: str) -> str:
        if name not in FORMATS:
            similar = difflib.get_close_matches(name, FORMATS, 1)
            raise self.refuse(
                f"format {name} is unknown", f"did you mean {similar[0]}?" if similar else f"use {', '.join(FORMATS)}"
            )
        return name

    def delimiter(self, part: str, name: str) -> str:
        """Return the character that separates values."""
        given = self.text(f"{part}_DELIMITER")
        if given is None:
            return ","
        if name != "DELIMITED":
            raise self.refuse(f"{part}_DELIMITER is only for the format DELIMITED", "remove it")
        character = _DELIMITERS.get(given.upper(), given)
        if len(character) != 1:
            raise self.refuse(f"the delimiter {given!r} is not one character", "use a character, SPACE or TAB")
        return character

    def wrapping(self, name: str, columns: Columns) -> bool | None:
        """Return whether the only column of a value is inside an object; None for the default."""
        given = self._given.get("WRAP_SINGLE_VALUE")
        if given is None:
            default = self._settings.get("ksql.persistence.wrap.single.values")
            return None if default is None or name not in _WRAPPING or len(columns) != 1 else default.lower() == "true"
        wraps = given if isinstance(given, bool) else str(given).lower() == "true"
        if len(columns) != 1 and (columns or name not in REGISTRY_FORMATS):
            raise self.refuse("WRAP_SINGLE_VALUE needs a value of one column", "remove it")
        is_protobuf = name.startswith("PROTOBUF")
        if (is_protobuf and not wraps) or (
            name not in _WRAPPING and not is_protobuf and (wraps or (name != "KAFKA" and name != "DELIMITED"))
        ):
            raise self.refuse(f"format {name} cannot wrap a single value", "remove WRAP_SINGLE_VALUE")
        return wraps

    def format(self, part: str, name: str, wraps: bool | None = None) -> Format:
        """Return the format of KEY or VALUE with all of its properties."""
        full_name = self.text(f"{part}_SCHEMA_FULL_NAME")
        if part == "VALUE" and full_name is None:
            full_name = self.text("VALUE_AVRO_SCHEMA_FULL_NAME")
        if full_name is not None and name not in ("AVRO", "PROTOBUF", "PROTOBUF_NOSR"):
            raise self.refuse(f"format {name} has no name of its schema", f"remove {part}_SCHEMA_FULL_NAME")
        if full_name is not None and (not full_name.strip() or not full_name[0].isalpha()):
            raise self.refuse(f"{full_name!r} is not a valid name of a schema", "use a name such as shop.Order")
        nullable = (self.text(f"{part}_PROTOBUF_NULLABLE_REPRESENTATION") or "").upper()
        if nullable and not name.startswith("PROTOBUF"):
            raise self.refuse(f"format {name} keeps null anyway", f"remove {part}_PROTOBUF_NULLABLE_REPRESENTATION")
        id = self.whole(f"{part}_SCHEMA_ID")
        if id is not None and name not in REGISTRY_FORMATS:
            raise self.refuse(f"format {name} has no schema in a registry", f"remove {part}_SCHEMA_ID")
        return Format(name, self.delimiter(part, name), wraps, id, full_name, nullable)

    def window(self) -> SourceWindow | None:
        """Return the windows of the keys."""
        kind, size = self.text("WINDOW_TYPE"), self.text("WINDOW_SIZE")
        if kind is None:
            if size is not None:
                raise self.refuse("WINDOW_SIZE needs WINDOW_TYPE", "add it")
            return None
        name: Any = kind.upper()
        if name not in ("TUMBLING", "HOPPING", "SESSION"):
            raise self.refuse(f"window type {kind!r} is unknown", "use TUMBLING, HOPPING or SESSION")
        if (size is None) is (name != "SESSION"):
            raise self.refuse(f"a {name} window {'needs' if name != 'SESSION' else 'has no'} WINDOW_SIZE")
        return SourceWindow(name, None if size is None else self._duration(size))

    def history(self, kind: Kind, window: SourceWindow | None) -> int | None:
        """Return for how long a table keeps old rows."""
        given = self.text("HISTORY")
        if given is None:
            return None
        if kind == "STREAM" or window is not None:
            raise self.refuse("HISTORY is for tables without windows", "remove it")
        return self._duration(given)

    def _duration(self, text: str) -> int:
        cursor = TokenCursor(text)
        length = cursor.duration()
        if cursor.token.kind != "end":
            raise self.refuse(f"{text!r} is not a duration", "write for example '30 SECONDS'")
        return length

    def whole(self, name: str) -> int | None:
        """Return a property that is a whole number above 0."""
        given = self._given.get(name)
        if given is None:
            return None
        if not str(given).isdecimal() or int(given) < 1:
            raise self.refuse(f"{name} = {given!r} is not valid", "use a whole number, 1 or more")
        return int(given)

    def check_timestamp(self, columns: Columns) -> tuple[str | None, str | None]:
        """Return the column of event time and its format."""
        name, format = self.text("TIMESTAMP"), self.text("TIMESTAMP_FORMAT")
        if name is None:
            if format is not None:
                raise self.refuse("TIMESTAMP_FORMAT needs TIMESTAMP", "add the column")
            return None, None
        quoted = name[1:-1] if name[:1] == "`" else name.upper()
        if quoted not in columns:
            raise self.refuse(f"the timestamp column {quoted} does not exist", f"use one of {', '.join(columns)}")
        type = columns[quoted].kind
        if format is not None and type != "STRING":
            raise self.refuse(f"TIMESTAMP_FORMAT is for STRING, but {quoted} is {type}", "remove it")
        if format is None and type not in ("BIGINT", "TIMESTAMP"):
            raise self.refuse(
                f"the timestamp column {quoted} is {type}", "use BIGINT, TIMESTAMP, or STRING with TIMESTAMP_FORMAT"
            )
        return quoted, format


def check_format(format: Format, columns: Columns, offset: int, part: str) -> None:
    """Reject columns that a format cannot contain."""
    if format.name == "NONE" and columns:
        raise Problem(offset, f"{part} format NONE has no columns", "use another format")
    if format.name == "KAFKA" and len(columns) > 1:
        raise Problem(offset, f"{part} format KAFKA has one column, not {len(columns)}", "use JSON or DELIMITED")
    for name, type in columns.items():
        if format.name in _PLAIN_NAMES and not _NAME.match(name):
            raise Problem(offset, f"{part} format {format.name} cannot have a column {name}", "use letters and digits")
        if not _supports(format.name, type):
            raise Problem(offset, f"{part} format {format.name} cannot contain {name} {type}", "use JSON")


def _supports(format: str, type: Type) -> bool:
    if format == "KAFKA":
        return type.kind in _KAFKA_TYPES
    if format in ("JSON_SR", "AVRO") and type.kind == "MAP" and type.items[0].kind != "STRING":
        return False
    if format.startswith("PROTOBUF") and type.kind in ("ARRAY", "MAP") and type.items[-1].kind in ("ARRAY", "MAP"):
        return False
    if format in ("JSON_SR", *_PLAIN_NAMES):
        return all(_supports(format, item) for item in type.items)
    return format != "DELIMITED" or not (type.items or type.kind == "STRUCT")
