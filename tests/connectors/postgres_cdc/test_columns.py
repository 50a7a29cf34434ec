"""Decoding by column returns what decoding row by row returns, for all types and values."""

from __future__ import annotations

from struct import pack

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millstream.connectors.change_data.changes import CompleteChanges, TableChanges, key_column
from millstream.connectors.change_data.json_rows import UNKNOWN, JsonColumns
from millstream.connectors.change_data.relation import RelationColumn, ReplicatedTable
from millstream.connectors.change_data.row_format import RowFormat
from millstream.connectors.change_data.texts import renderer
from millstream.connectors.postgres_cdc.decoding import decode_changes

Cell = bytes | None
_UNCHANGED = b"\0unchanged"  # no text of Postgres has a null character
_TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
_TIMES = st.datetimes().map(lambda time: time.isoformat(" "))
_BY_TYPE: dict[int, st.SearchStrategy[str]] = {
    20: st.integers(-(2**63), 2**63 - 1).map(str),
    16: st.sampled_from("tf"),
    25: _TEXTS,
    2950: st.uuids().map(str),
    701: st.floats().map(
        lambda number: {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(number), str(number))
    ),
    1700: st.decimals(allow_nan=False, allow_infinity=False, places=3).map(lambda number: format(number, "f")),
    1114: _TIMES | st.sampled_from(["infinity", "0044-03-15 00:00:00 BC"]),
    1184: _TIMES.map(lambda text: text + "+00") | st.sampled_from(["-infinity", "2024-02-29 12:00:00+05:30"]),
    17: st.binary(max_size=20).map(lambda data: "\\x" + data.hex()),
    3802: st.dictionaries(_TEXTS, st.integers()).map(lambda value: msgspec.json.encode(value).decode()),
    1007: st.lists(st.integers(-9, 9)).map(lambda numbers: "{" + ",".join(map(str, numbers)) + "}"),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[ReplicatedTable, list[tuple[str, list[Cell]]]]:
    """Return a table whose first column is the key, and changes of it."""
    types = [20 if draw(st.booleans()) else 25, *draw(st.lists(st.sampled_from(sorted(_BY_TYPE)), max_size=5))]
    columns = tuple(RelationColumn(f'c{n}"', type_id, is_key=n == 0) for n, type_id in enumerate(types))
    cells: list[st.SearchStrategy[Cell]] = [
        _BY_TYPE[type_id].map(str.encode) | st.sampled_from([None, _UNCHANGED] if n else [b"1"])
        for n, type_id in enumerate(types)
    ]
    rows = st.tuples(st.sampled_from("IUD"), st.tuples(*cells).map(list))
    return ReplicatedTable("public", "t", columns, oid=7), draw(st.lists(rows, min_size=1, max_size=40))


def message(kind: str, cells: list[Cell], lsn: int) -> bytes:
    """Return a row as the server sends it."""
    parts = [b"w", pack(">QQq", lsn, lsn, 0), kind.encode(), pack(">I", 7), b"K" if kind == "D" else b"N"]
    parts.append(pack(">H", len(cells)))
    for cell in cells:
        if cell is None or cell == _UNCHANGED:
            parts.append(b"n" if cell is None else b"u")
        else:
            parts += [b"t", pack(">I", len(cell)), cell]
    return b"".join(parts)


def value_row_by_row(relation: ReplicatedTable, cells: list[Cell]) -> bytes:
    """Return the JSON object of one row, rendered cell by cell."""
    fields = []
    for column, cell in zip(relation.columns, cells, strict=True):
        known = UNKNOWN if cell == _UNCHANGED else b"null" if cell is None else renderer(column.type)(cell)
        fields.append(msgspec.json.encode(column.name) + b":" + known)
    return b"{" + b",".join(fields) + b"}"


def decoded(relation: ReplicatedTable, rows: list[tuple[str, list[Cell]]]) -> TableChanges:
    messages = [message(kind, cells, lsn) for lsn, (kind, cells) in enumerate(rows)]
    zeros = np.zeros(len(rows), np.int64)
    return decode_changes(relation, messages, zeros, zeros)


@given(tables())
def test_columns_are_the_rows(table: tuple[ReplicatedTable, list[tuple[str, list[Cell]]]]) -> None:
    relation, rows = table
    changes = decoded(relation, rows)
    keys = key_column(relation, JsonColumns(changes.cells), changes.cells)
    block = RowFormat().block(CompleteChanges(changes, keys, {}, [], []))
    block.validate(full=True)
    assert block.column(0).to_pylist() == [cells[0] for _, cells in rows]
    expected = [None if kind == "D" else value_row_by_row(relation, cells) for kind, cells in rows]
    assert block.column(1).to_pylist() == expected
    assert changes.lsns.tolist() == list(range(len(rows)))
    sent = [[None if cell == _UNCHANGED else cell for cell in cells] for _, cells in rows]
    assert [changes.cells.row(number) for number in range(len(rows))] == sent
