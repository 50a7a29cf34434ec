"""Data is never code: neither records nor the names and texts of SQL statements are executed by what reads them."""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.sql.running import rows

from millstream import App, Config
from millstream.foundation.object_codec import OBJECT_CODEC, decode_key
from millstream.serdes import FLOAT64, INT32, INT64, JSON, READABLE, Json, MessagePack, serde_for
from millstream.testing import TestDriver


class Order(msgspec.Struct):
    item: str


class Attack:
    """Creates a directory when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._path),)


READERS: dict[str, Any] = {
    "object codec": OBJECT_CODEC.decode,
    "key of a store": decode_key,
    **{f"type {kind}": serde_for(kind).decode for kind in (str, bytes, int, float, bool, dict, list, datetime, Order)},
    **{serde.name: serde.decode for serde in (JSON, READABLE, INT32, INT64, FLOAT64, Json(Order), MessagePack())},
}


@pytest.fixture
def attacks(tmp_path: Path) -> list[bytes]:
    """Pickles of every protocol, each of which would create the directory ``attacked``."""
    pickles = [pickle.dumps(Attack(tmp_path / "attacked"), protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for attack in pickles:
        pickle.loads(attack)
        (tmp_path / "attacked").rmdir()  # fails unless the attack works
    return pickles


@pytest.mark.parametrize("reader", READERS)
def test_a_pickle_is_not_loaded(reader: str, attacks: list[bytes], tmp_path: Path) -> None:
    for attack in attacks:
        with suppress(Exception):  # data that is not valid may raise
            READERS[reader](attack)
        assert not (tmp_path / "attacked").exists()


def test_a_pickle_in_a_record_is_a_dead_letter_or_text(attacks: list[bytes], tmp_path: Path) -> None:
    app = App("test", config=Config(on_error="dead_letter"))
    app.stream("orders", key=bytes, value=Order).group_by_key().count(name="counted")
    app.table("rows", key=bytes, value=bytes, name="stored")
    with TestDriver(app) as driver:
        for attack in attacks:
            for topic in ("orders", "rows"):
                driver.topic(topic).pipe_raw(attack, key=attack, headers=(("h", attack),))
        assert len(driver.table("stored")) == len(attacks)
        assert len(driver.table("counted")) == 0
    assert not (tmp_path / "attacked").exists()


CODE = "__import__('os').mkdir('attacked')"
HOSTILE = [
    *("x", CODE, f"') or {CODE} or ('", f'") or {CODE} or ("', f"x\n{CODE}\n", f"{{{CODE}}}"),
    *("x\\", "x'", 'x"', "#"),
]
"""Names and texts that would create a directory if they became part of a program without being quoted."""


@pytest.mark.parametrize("text", HOSTILE)
def test_names_and_texts_of_sql_are_quoted(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name, literal = f"`{text}`", "'" + text.replace("'", "''") + "'"
    statements = f"""
        CREATE STREAM s (k STRING KEY, {name} STRING, n STRUCT<{name} INT>) WITH (kafka_topic='s', value_format='json');
        CREATE STREAM out AS SELECT k, {name}, n->{name} AS {name}2, {name} + {literal} AS t FROM s
            WHERE {name} = {literal} OR {name} LIKE {literal};
        CREATE TABLE counted AS SELECT {name}, COUNT(*) AS {name}2 FROM s GROUP BY {name};
    """.replace(f"{name}2", f"`{text}2`")
    inputs = [("s", "k", {text: text, "N": {text: 1}}), ("s", "k", {text: "other", "N": None})]
    assert rows(statements, "OUT", inputs) == [("k", {text: text, f"{text}2": 1, "T": text * 2})]
    assert rows(statements, "COUNTED", inputs) == [(text, {f"{text}2": 1}), ("other", {f"{text}2": 1})]
    assert not (tmp_path / "attacked").exists()
