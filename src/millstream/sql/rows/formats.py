"""The row formats JSON, DELIMITED, KAFKA and NONE as serdes.

A value is a dict by column name. A key of one column is its value, of several a tuple, and without columns null.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from millstream.errors import SerdeError
from millstream.foundation.nesting import limit_json_depth
from millstream.foundation.struct_rows import ProjectedRows
from millstream.serdes import FLOAT64, INT32, INT64, RAW, TEXT, Serde
from millstream.sql.rows.delimited import read_line, text_reader, text_writer, write_line
from millstream.sql.rows.fast import FastRows
from millstream.sql.rows.plain import from_plain, object_reader, to_plain
from millstream.sql.types import Type

Columns = Mapping[str, Type]


def _text_of(columns: Columns) -> str:
    return ",".join(f"{name} {type}" for name, type in columns.items())


class RowSerde:
    """Base of row serdes: columns by name, and whether the row is a key."""

    format: str
    equivalent: Serde | None = None
    """A serde that encodes and decodes the same, but faster for whole columns."""

    def __init__(self, columns: Columns, *, is_key: bool) -> None:
        self.columns = dict(columns)
        self.is_key = is_key
        self._names = tuple(columns)

    @property
    def name(self) -> str:
        return f"{self.format}({_text_of(self.columns)})"

    def _row(self, row: dict[str, Any]) -> Any:
        """Return what a row is in a stream: a dict, or for a key its value or a tuple."""
        if not self.is_key:
            return row
        if len(self._names) == 1:
            return row[self._names[0]]
        return tuple(row.values()) if self._names else None

    def _items(self, row: Any) -> list[Any]:
        """Return the values of a row in the order of the columns."""
        if self.is_key:
            return [row] if len(self._names) == 1 else list(row)
        return [row.get(name) for name in self._names]


class JsonRows(RowSerde):
    """JSON objects, or with ``is_wrapped=False`` the value of the only column itself."""

    format = "json_rows"

    def __init__(self, columns: Columns, *, is_key: bool = False, is_wrapped: bool = True) -> None:
        super().__init__(columns, is_key=is_key)
        self.is_wrapped = is_wrapped
        encoder = msgspec.json.Encoder(decimal_format="number")
        exact = any(_has_decimals(type) for type in columns.values())
        decoder = msgspec.json.Decoder(float_hook=Decimal) if exact else msgspec.json.Decoder()
        self._decode = limit_json_depth(decoder.decode, Any)
        self._encode, self._lines = encoder.encode, encoder.encode_lines
        self._converters = [(name, to_plain(type)) for name, type in columns.items()]
        kinds = {type.kind for type, (_, convert) in zip(columns.values(), self._converters, strict=True) if convert}
        self._is_plain = kinds <= {"DOUBLE"} and not is_key and is_wrapped
        self._has_doubles = "DOUBLE" in kinds
        self._fast = FastRows.of(columns) if is_wrapped and not is_key else None
        self._read = object_reader(dict(columns)) if is_wrapped else from_plain(next(iter(columns.values())))

    @property
    def name(self) -> str:
        return super().name if self.is_wrapped else f"{super().name} unwrapped"

    def encode(self, row: Any, /) -> bytes:
        """Encode a row."""
        if self._is_plain and type(row) is dict and tuple(row) == self._names:
            data = self._encode(row)
            if not self._has_doubles or b"null" not in data:  # NaN would be null, but is text
                return data
        values = {
            name: value if value is None or convert is None else convert(value)
            for (name, convert), value in zip(self._converters, self._items(row), strict=True)
        }
        if self.is_wrapped:
            return self._encode(values)
        value = next(iter(values.values()))
        return None if value is None and not self.is_key else self._encode(value)  # type: ignore[return-value]  # null

    has_depth_limit = False
    """Typed columns limit the depth themselves."""

    @property
    def reads_lines(self) -> bool:
        """Whether rows can be decoded as lines."""
        return self._fast is not None

    def decode_lines(self, lines: bytes) -> list[Any]:
        """Decode rows that are lines; nothing if one of them must be decoded by itself."""
        return [] if self._fast is None else self._fast.decode_lines(lines)

    def as_structs(self) -> Serde | None:
        """Return what reads lines as Structs instead of dicts; None if rows need conversions."""
        return None if self._fast is None else _StructRows(self, self._fast)

    def encode_lines(self, rows: list[Any]) -> bytes:
        """Encode rows as lines; nothing if one of them must be encoded by itself."""
        if not self._is_plain or not self._has_all_columns(rows):
            return b""
        lines = self._lines(rows)
        return b"" if self._has_doubles and b"null" in lines else lines

    def _has_all_columns(self, rows: list[Any]) -> bool:
        if isinstance(rows, ProjectedRows):
            return rows.column_names == self._names
        return set(map(type, rows)) == {dict} and set(map(tuple, rows)) == {self._names}

    def decode(self, data: bytes, /) -> Any:
        """Decode a row."""
        if self._fast is not None and (row := self._fast.decode(data)) is not None:
            return row
        value = self._decode(data)
        if not self.is_wrapped:
            return self._row({self._names[0]: self._read(value)})
        return None if value is None else self._row(self._read(value))


class _StructRows(Serde):
    """JSON rows whose lines are decoded to Structs; a row that is decoded by itself is a dict."""

    reads_lines = True
    has_depth_limit = False

    def __init__(self, rows: JsonRows, fast: FastRows) -> None:
        self._rows = rows
        self.decode_lines = fast.decode_structs

    def decode(self, data: bytes, /) -> Any:
        """Decode a row to a dict."""
        return self._rows.decode(data)

    def encode(self, row: Any, /) -> bytes:
        """Encode a row that is a dict."""
        return self._rows.encode(row)

    @property
    def name(self) -> str:
        return self._rows.name


def _has_decimals(type: Type) -> bool:
    return type.kind in ("DECIMAL", "STRING") or any(map(_has_decimals, type.items))


class DelimitedRows(RowSerde):
    """Values separated by commas or another character."""

    format = "delimited"

    def __init__(self, columns: Columns, *, is_key: bool = False, delimiter: str = ",") -> None:
        super().__init__(columns, is_key=is_key)
        self.delimiter = delimiter
        self._readers = [text_reader(type) for type in columns.values()]
        self._writers = [text_writer(type) for type in columns.values()]

    @property
    def name(self) -> str:
        return super().name if self.delimiter == "," else f"{super().name} by {self.delimiter!r}"

    def encode(self, row: Any, /) -> bytes:
        """Encode a row."""
        texts = (
            None if value is None else write(value)
            for write, value in zip(self._writers, self._items(row), strict=True)
        )
        return write_line(texts, self.delimiter).encode()

    def decode(self, data: bytes, /) -> Any:
        """Decode a row."""
        texts = read_line(data.decode(), self.delimiter)
        if len(texts) != len(self._names):
            raise SerdeError(
                f"{data!r:.80} has {len(texts)} columns, but {len(self._names)} are declared",
                hint="declare the columns as they are in the topic",
            )
        values = (
            None if text is None or text == "" else read(text) for read, text in zip(self._readers, texts, strict=True)
        )
        return self._row(dict(zip(self._names, values, strict=True)))


_KAFKA: dict[str, Serde] = {"INTEGER": INT32, "BIGINT": INT64, "DOUBLE": FLOAT64, "STRING": TEXT, "BYTES": RAW}


class KafkaRows(RowSerde):
    """The only column as Kafka's own serializers write it."""

    format = "kafka"

    def __init__(self, columns: Columns, *, is_key: bool = False) -> None:
        super().__init__(columns, is_key=is_key)
        self._inner = _KAFKA[next(iter(columns.values())).kind] if columns else None
        self.equivalent = TEXT if is_key and self._inner is TEXT else None

    def encode(self, row: Any, /) -> bytes:
        """Encode a row; without columns it is empty."""
        value = self._items(row)[0] if self._inner is not None else None
        if value is None or self._inner is None:
            return None if self._inner is not None else b""  # type: ignore[return-value]  # a null value
        return self._inner.encode(value)

    def decode(self, data: bytes, /) -> Any:
        """Decode a row."""
        value = None if self._inner is None or (data == b"" and self._inner is not TEXT) else self._inner.decode(data)
        return self._row(dict.fromkeys(self._names, value))


class NoRows(RowSerde):
    """No columns: whatever a topic contains is not read, and nothing is written."""

    format = "none"

    def encode(self, _row: Any, /) -> bytes:
        """Return no bytes."""
        return b""

    def decode(self, _data: bytes, /) -> Any:
        """Return a row without columns."""
        return self._row({})
