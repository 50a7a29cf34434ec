"""Run a script of ksqlDB: statements in order, INSERT feeds the queries so far, ASSERT looks at topics and sources."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from typing import Any

import msgspec

from millstream.app import App
from millstream.config import Config
from millstream.errors import DefinitionError
from millstream.records import Windowed
from millstream.sql.catalog import Catalog, Relation
from millstream.sql.nodes import AnyStatement, CreateAs, CreateSource, InsertValues
from millstream.sql.parser.statements import parse
from millstream.sql.tokens import tokens_of
from millstream.sql.translate.defining import relation_of
from millstream.sql.translate.inserting import insertion_of
from millstream.sql.translate.reading import Readers
from millstream.sql.translate.statements import DefinedStatement, Statements, located
from millstream.testing.driver import TestDriver
from millstream.testing.ksql.cases import Case
from millstream.testing.ksql.extensions import EXTENSIONS
from millstream.testing.ksql.records import Raw
from millstream.testing.ksql.running import Outcome, judged

_COMPARED = ("kind", "topic", "keys", "values", "key_format", "value_format", "window", "timestamp", "timestamp_format")


def run_script(case: Case) -> Outcome:
    """Run a case of the suite ``script``."""
    return judged(case, lambda: _ScriptRun(case).outcome())


def statement_texts(text: str) -> list[str]:
    """Return the statements of a text, each with its semicolon."""
    starts, texts = 0, []
    for token in tokens_of(text):
        if (token.kind, token.text) == ("symbol", ";"):
            texts.append(text[starts : token.end].strip())
            starts = token.end
    return texts


class _ScriptRun:
    def __init__(self, case: Case) -> None:
        self._case = case
        self._catalog = Catalog()
        self._catalog.settings.update({name: str(value) for name, value in (case.properties or {}).items()})
        self._apps: list[App] = []
        self._statements = Statements(self._catalog, self._new_app)
        self._drivers: dict[str, TestDriver] = {}
        """The running queries by the stream or table that they write."""
        self._topics: defaultdict[str, list[Raw]] = defaultdict(list)
        self._compared: defaultdict[str, int] = defaultdict(int)
        self._open = ExitStack()

    def _new_app(self) -> Readers:
        app = App(f"q{len(self._apps)}", config=Config(on_error="fail", on_decode_error="skip"))
        self._apps.append(app)
        return Readers(app)

    def outcome(self) -> Outcome:
        """Execute all statements; the last one must fail if the case is a refusal."""
        with self._open:
            for text in statement_texts(self._case.text):
                self._execute(text)
        if self._case.is_refusal:
            reason = EXTENSIONS.get(self._case.id)
            return Outcome("exceeded", reason) if reason else Outcome("failed", "it was not refused")
        return Outcome("passed")

    def _execute(self, text: str) -> None:
        words = text.split()
        if words[0].upper() != "ASSERT":
            for executed in self._statements.execute(text):
                self._apply(executed)
        elif words[1].upper() == "VALUES":
            self._assert_values(self._parsed("INSERT INTO", text, 2))
        elif words[1].upper() == "NULL":
            self._assert_null(self._parsed("INSERT INTO", text, 3))
        else:
            self._assert_source(self._parsed("CREATE", text, 1))

    def _parsed(self, beginning: str, text: str, count: int) -> AnyStatement:
        """Return an ASSERT as the statement that it looks like."""
        rest = text.split(None, count)[count]
        if count == 3:
            rest = rest.replace(" KEY (", " VALUES (")
        [statement] = parse(f"{beginning} {rest}", self._catalog.types, self._catalog.variables)
        return statement

    def _apply(self, executed: DefinedStatement) -> None:
        if executed.insertion is not None:
            insertion = executed.insertion
            self._feed(insertion.topic, Raw(insertion.key, insertion.value, insertion.timestamp or 0))
        elif executed.handle is not None and executed.relation is not None:
            driver = self._open.enter_context(TestDriver(self._apps[-1], one_stream_time=True))
            name = executed.relation.name
            if not isinstance(executed.statement, CreateAs):
                name += f" {len(self._drivers)}"
            if self._drivers.pop(name, None) is not None:
                self._catch_up(driver)
            self._drivers[name] = driver

    def _catch_up(self, driver: TestDriver) -> None:
        """Let a query that replaces another one know the past, of which it writes nothing."""
        for topic in driver.app.plan.source_topics:
            for raw in self._topics[topic]:
                driver.topic(topic).pipe_raw(raw.value, key=raw.key, timestamp=raw.timestamp, headers=raw.headers)
        for sink in driver.app.plan.sink_topics:
            driver.topic(sink).read_raw()

    def _feed(self, topic: str, raw: Raw) -> None:
        """Append a record and pass it to the queries that read the topic; so on for what they write."""
        self._topics[topic].append(raw)
        for driver in list(self._drivers.values()):
            if topic not in driver.app.plan.source_topics:
                continue
            driver.topic(topic).pipe_raw(raw.value, key=raw.key, timestamp=raw.timestamp, headers=raw.headers)
            for sink in driver.app.plan.sink_topics:
                for record in driver.topic(sink).read_raw():
                    self._feed(sink, Raw(record.key, record.value, record.timestamp, record.headers))

    def _next(self, relation: Relation) -> Raw:
        records, number = self._topics[relation.topic], self._compared[relation.topic]
        if number >= len(records):
            raise DefinitionError(f"{relation.name} has no further record", hint="the assertion fails")
        self._compared[relation.topic] += 1
        return records[number]

    def _assert_values(self, statement: AnyStatement) -> None:
        assert isinstance(statement, InsertValues)
        relation = self._catalog.find(statement.target, 0)
        raw = self._next(relation)
        with located("", statement):
            expected = insertion_of(statement, _without_windows(relation))
        names = statement.columns or (*relation.keys, *relation.values)
        wanted = _row(relation, Raw(expected.key, expected.value, expected.timestamp or 0), is_windowed=False)
        actual = _row(relation, raw, is_windowed=True)
        for name in names:
            if wanted.get(name) != actual.get(name):
                raise DefinitionError(f"{name} is {actual.get(name)!r}, not {wanted.get(name)!r}", hint="")

    def _assert_null(self, statement: AnyStatement) -> None:
        assert isinstance(statement, InsertValues)
        relation = self._catalog.find(statement.target, 0)
        raw = self._next(relation)
        expected = insertion_of(statement, _without_windows(relation))
        wanted = _row(relation, Raw(expected.key, None, 0), is_windowed=False)
        actual = _row(relation, raw, is_windowed=True)
        if raw.value is not None or any(wanted[name] != actual[name] for name in relation.keys):
            raise DefinitionError(f"the record is {actual!r}, not a deletion of {wanted!r}", hint="")

    def _assert_source(self, statement: AnyStatement) -> None:
        assert isinstance(statement, CreateSource)
        actual = self._catalog.find(statement.name, 0)
        with located("", statement):
            expected = relation_of(statement, self._catalog)
        for field in _COMPARED:
            mine, its = getattr(expected, field), getattr(actual, field)
            if mine != its:
                raise DefinitionError(f"{field} of {actual.name} is {its!r}, not {mine!r}", hint="")


def _without_windows(relation: Relation) -> Relation:
    return msgspec.structs.replace(relation, window=None)


def _row(relation: Relation, raw: Raw, *, is_windowed: bool) -> dict[str, Any]:
    """Return a record as a row, with ROWTIME."""
    relation = relation if is_windowed else _without_windows(relation)
    key = None if raw.key is None else relation.key_serde.decode(raw.key)
    if isinstance(key, Windowed):
        key = key.key
    parts = (key,) if len(relation.keys) == 1 else key or ()
    value = None if raw.value is None else relation.value_serde.decode(raw.value)
    return {**dict(zip(relation.keys, parts, strict=False)), **(value or {}), "ROWTIME": raw.timestamp}
