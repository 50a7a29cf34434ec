"""Tests of SQL that are written in SQL: records that are inserted, and what the app must make of them.

``TEST 'name';`` begins a test, each with an app of its own. ``INSERT INTO s (…) VALUES (…), (…);`` writes records,
``ASSERT VALUES t (…) VALUES (…);`` compares the next records of a topic, ``ASSERT DELETED t (…) VALUES (…);`` expects
that rows are deleted, ``ASSERT NO VALUES t;`` that there is no further record, and ``ADVANCE 10 MINUTES;`` moves the
wall clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import msgspec

from millstream.app import App
from millstream.errors import DefinitionError, SqlTestError
from millstream.records import Record, Windowed
from millstream.sql.catalog import Catalog, Relation
from millstream.sql.constants import constant_value
from millstream.sql.nodes import AnyExpression, InsertValues
from millstream.sql.parser.statements import StatementParser
from millstream.sql.problems import Problem
from millstream.sql.tokens import error_at, refuse
from millstream.sql.translate.inserting import insertion_of
from millstream.sql.translate.names import BOUNDS, PSEUDO
from millstream.testing.driver import TestDriver


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """A statement of a test."""

    verb: Literal["INSERT", "VALUES", "DELETED", "NONE", "ADVANCE"]
    offset: int
    target: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[AnyExpression, ...], ...] = ()
    milliseconds: int = 0


class SqlTest(msgspec.Struct, frozen=True, kw_only=True):
    """A test of a file."""

    name: str
    text: str
    """The whole file, for messages."""
    actions: tuple[Action, ...]

    def run(self, app: App) -> None:
        """Run the test with a new instance of the app; raise ``SqlTestError`` where it fails."""
        with TestDriver(app) as driver:
            run = _ScriptRun(driver, app.published_sql.catalog(allows_code=True), self.text)
            for action in self.actions:
                try:
                    run.execute(action)
                except Problem as problem:
                    raise error_at(self.text, problem.offset, problem.message, problem.hint) from None


def read_sql_tests(path: Path) -> list[SqlTest]:
    """Return the tests of a file; an error in it has line, column and a hint."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"the file {str(path)!r} cannot be read: {error}", hint="check its name") from error
    return list(parse_sql_tests(text))


def parse_sql_tests(text: str) -> Iterator[SqlTest]:
    """Yield the tests of a text.

    >>> [test.name for test in parse_sql_tests("TEST 'a'; ADVANCE 1 MINUTE; TEST 'b';")]
    ['a', 'b']
    """
    parser = _TestParser(text)
    names: set[str] = set()
    while parser.token.kind != "end":
        offset = parser.token.start
        parser.expect_word("TEST")
        name = parser.string("the name of the test in quotes")
        parser.end()
        if name in names:
            refuse(text, offset, f"two tests are called {name!r}", "rename one")
        names.add(name)
        actions = []
        while parser.token.kind != "end" and not parser.is_word("TEST"):
            actions.append(parser.action())
            parser.end()
        yield SqlTest(name=name, text=text, actions=tuple(actions))


class _TestParser(StatementParser):
    def end(self) -> None:
        if not self.take_symbol(";"):
            self.unexpected("';'")

    def action(self) -> Action:
        offset = self.token.start
        if self.take_word("INSERT", "INTO"):
            return self._rows("INSERT", offset)
        if self.take_word("ADVANCE"):
            return Action(verb="ADVANCE", offset=offset, milliseconds=self.duration())
        if self.take_word("ASSERT", "VALUES"):
            return self._rows("VALUES", offset)
        if self.take_word("ASSERT", "DELETED"):
            return self._rows("DELETED", offset)
        if self.take_word("ASSERT", "NO", "VALUES"):
            return Action(verb="NONE", offset=offset, target=self.name("a stream or table"))
        words = ["INSERT", "ASSERT", "ADVANCE", "TEST"]
        self.unexpected("INSERT INTO, ASSERT VALUES, ASSERT DELETED, ASSERT NO VALUES, ADVANCE or TEST", words)

    def _rows(self, verb: Literal["INSERT", "VALUES", "DELETED"], offset: int) -> Action:
        target = self.name("a stream or table")
        columns: tuple[str, ...] = ()
        if self.take_symbol("("):
            columns = self.list_of(lambda: self.name("a column"))
        self.expect_word("VALUES")
        rows = [self._row()]
        while self.take_symbol(","):
            rows.append(self._row())
        return Action(verb=verb, offset=offset, target=target, columns=columns, rows=tuple(rows))

    def _row(self) -> tuple[AnyExpression, ...]:
        self.expect_symbol("(")
        return self.list_of(self.expression)


class _ScriptRun:
    def __init__(self, driver: TestDriver, catalog: Catalog, text: str) -> None:
        self._driver = driver
        self._catalog = catalog
        self._text = text
        self._unread: dict[str, list[Record[Any, Any]]] = {}

    def execute(self, action: Action) -> None:
        if action.verb == "ADVANCE":
            self._driver.advance_wall_clock(timedelta(milliseconds=action.milliseconds))
            return
        relation = self._catalog.find(action.target, action.offset)
        if action.verb == "INSERT":
            self._insert(action, relation)
        elif action.verb == "NONE":
            if records := self._records(relation):
                raise self._failure(action, f"{relation.name} has a further record, {_shown(relation, records[0])}")
        else:
            for row in action.rows:
                self._compare(action, relation, row)

    def _failure(self, action: Action, message: str) -> SqlTestError:
        located = error_at(self._text, action.offset, message)
        return SqlTestError(str(located), **located.facts)

    def _insert(self, action: Action, relation: Relation) -> None:
        for row in action.rows:
            statement = InsertValues(target=action.target, columns=action.columns, values=row, start=action.offset)
            insertion = insertion_of(statement, relation)
            time = self._driver.wall_clock if insertion.timestamp is None else insertion.timestamp
            self._driver.topic(insertion.topic).pipe_raw(insertion.value, key=insertion.key, timestamp=time)

    def _records(self, relation: Relation) -> list[Record[Any, Any]]:
        records = self._unread.setdefault(relation.topic, [])
        records += self._driver.topic(relation.topic).read_raw()
        return records

    def _compare(self, action: Action, relation: Relation, row: tuple[AnyExpression, ...]) -> None:
        bounds = {} if relation.window is None else BOUNDS
        types = {**relation.keys, **relation.values, **bounds, "ROWTIME": PSEUDO["ROWTIME"]}
        known = relation.keys if action.verb == "DELETED" else {**relation.keys, **relation.values}
        names = action.columns or tuple(known)
        if len(names) != len(row):
            raise Problem(action.offset, f"{len(row)} values are given for {len(names)} columns")
        records = self._records(relation)
        if not records:
            raise self._failure(action, f"{relation.name} has no further record")
        record = records.pop(0)
        if (record.value is None) is not (action.verb == "DELETED"):
            expected = "a deletion" if action.verb == "DELETED" else "a row"
            raise self._failure(action, f"the record of {relation.name} is {_shown(relation, record)}, not {expected}")
        actual = _row(relation, record)
        for name, node in zip(names, row, strict=True):
            if name not in types:
                raise Problem(node.offset, f"{relation.name} has no column {name}", f"it has {', '.join(types)}")
            expected = constant_value(node, types[name])
            if not _is_equal(actual[name], expected):
                raise self._failure(action, f"{name} of {relation.name} is {actual[name]!r}, not {expected!r}")


def _row(relation: Relation, record: Record[Any, Any]) -> dict[str, Any]:
    """Return a record by column, with its time and the bounds of its window."""
    key = None if record.key is None else relation.key_serde.decode(record.key)
    bounds = {}
    if isinstance(key, Windowed):
        bounds = {"WINDOWSTART": key.start, "WINDOWEND": key.end}
        key = key.key
    keys = (key,) if len(relation.keys) == 1 else key or ()
    value = {} if record.value is None else relation.value_serde.decode(record.value) or {}
    empty = dict.fromkeys((*relation.keys, *relation.values))
    return {**empty, **dict(zip(relation.keys, keys, strict=False)), **value, **bounds, "ROWTIME": record.timestamp}


def _shown(relation: Relation, record: Record[Any, Any]) -> str:
    row = _row(relation, record)
    names = relation.keys if record.value is None else {**relation.keys, **relation.values}
    columns = ", ".join(f"{name} = {row[name]!r}" for name in names)
    return f"a deletion of {columns}" if record.value is None else f"({columns})"


def _is_equal(actual: Any, expected: Any) -> bool:
    """Whether two values are equal; floats up to rounding."""
    if isinstance(actual, float) and isinstance(expected, float):
        return math.isclose(actual, expected, rel_tol=1e-9, abs_tol=1e-12) or actual is expected
    return bool(actual == expected)
