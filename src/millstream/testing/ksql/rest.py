"""Run a case of ksqlDB's REST tests: definitions are an app in the test driver, queries are statements of a session."""

from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal
from typing import Any

import msgspec

from millstream.app import App
from millstream.broker import TopicConfig
from millstream.config import Config
from millstream.queries.answers import Change, Changes, Message, Result
from millstream.queries.session import EARLIEST, Session
from millstream.sql.nodes import AnyStatement, InsertValues, Select
from millstream.sql.parser.statements import parse
from millstream.sql.registries import URL, RegistryAddress, use_client
from millstream.sql.showing import ShownColumn
from millstream.testing.driver import TestDriver
from millstream.testing.ksql.cases import Case
from millstream.testing.ksql.extensions import EXTENSIONS
from millstream.testing.ksql.records import Raw, Writer, difference, raw_record, same
from millstream.testing.ksql.registry import MemoryRegistry, schemas_of
from millstream.testing.ksql.running import Outcome, judged

_ENCODER = msgspec.json.Encoder(enc_hook=repr, decimal_format="number")
_PARTITIONS = 4
"""The number of partitions in ksqlDB's tests, unless a case gives another one."""
_IDLE = 5
"""How often a push query may have nothing before it is taken to be at its end."""


def run_rest(case: Case) -> Outcome:
    """Run a case of the suite ``rest``."""
    return judged(case, lambda: _RestRun(case).outcome())


class _RestRun:
    def __init__(self, case: Case) -> None:
        self._case = case
        self._app = App("rest", config=Config(on_error="fail", on_decode_error="skip"))
        self._app.stream("unused").foreach(lambda _value: None)  # an app needs a source, a case may have none
        self._settings = {name: str(value) for name, value in (case.properties or {}).items()}
        registry = MemoryRegistry()
        schemas_of(registry, case.topics)
        use_client(RegistryAddress(registry.url), registry)
        self._settings[URL] = registry.url
        self._statements = self._split()

    def _split(self) -> list[tuple[AnyStatement, str]]:
        """Return the statements with their texts; definitions are executed, which may refuse them."""
        for name, value in self._settings.items():
            self._app.sql(f"SET '{name}' = '{value}';")
        executed = []
        for item in self._case.statements:
            program = self._app._sql
            types = {} if program is None else program.catalog.types
            for statement in parse(item, types):
                text = item[statement.start : statement.end]
                executed.append((statement, text))
                if not isinstance(statement, Select | InsertValues):
                    self._app.sql(text)
        return executed

    @property
    def _partitions(self) -> int:
        """How many partitions topics have: ROWPARTITION and LIMIT without ORDER BY show it."""
        return max((topic.get("partitions") or 0 for topic in self._case.topics), default=0) or _PARTITIONS

    def outcome(self) -> Outcome:
        """Run the case and compare what it answers and writes."""
        with TestDriver(self._app, partitions=self._partitions) as driver:
            published = self._app.published_sql
            session = Session(lambda: driver.broker, published=published, tables=lambda: driver.tables)
            session.catalog.settings.update({EARLIEST: "earliest", **self._settings})
            for each in published.relations:
                if each.relation.topic not in driver.topics:
                    driver.broker.create_topic(each.relation.topic, TopicConfig(partitions=self._partitions))
            problem = self._run(driver, session)
            if self._case.is_refusal:
                reason = EXTENSIONS.get(self._case.id)
                return Outcome("exceeded", reason) if reason else Outcome("failed", "it was not refused")
            return Outcome("failed", problem) if problem else Outcome("passed")

    def _run(self, driver: TestDriver, session: Session) -> str:
        responses = iter(self._case.responses)
        waits = bool((self._case.input_conditions or {}).get("waitForActivePushQuery"))
        is_fed = False
        for statement, text in self._statements:
            response = next(responses, None)
            if isinstance(statement, Select) and not is_fed and not waits:
                self._feed(driver)
                is_fed = True
            if not isinstance(statement, Select | InsertValues):
                continue
            [executed] = session.execute(text)
            if isinstance(executed.answer, Message):
                driver.advance_wall_clock("1 ms")  # the app processes what was inserted
                continue
            if not is_fed:
                if not isinstance(executed.answer, Result):
                    executed.answer.take(0)
                    executed.answer.take(0)
                self._feed(driver)
                is_fed = True
            problem = _compared(executed.answer, response)
            if problem:
                return f"{text}: {problem}"
        return self._outputs(driver)

    def _feed(self, driver: TestDriver) -> None:
        relations = {each.relation.topic: each.relation for each in self._app.published_sql.relations}
        for record in self._case.inputs:
            relation = relations[record["topic"]]
            parts = (relation.key_format, relation.keys), (relation.value_format, relation.values)
            raw = raw_record(record, Writer(relation, *parts))
            driver.topic(record["topic"]).pipe_raw(raw.value, key=raw.key, timestamp=raw.timestamp, headers=raw.headers)

    def _outputs(self, driver: TestDriver) -> str:
        relations = {each.relation.topic: each.relation for each in self._app.published_sql.relations}
        expected: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for record in self._case.outputs:
            expected[record["topic"]].append(record)
        for topic, records in expected.items():
            actual = driver.topic(topic).read_raw()
            if len(actual) != len(records):
                return f"{topic} has {len(actual)} records, not {len(records)}"
            for mine, its in zip(records, actual, strict=True):
                raw = Raw(its.key, its.value, its.timestamp, its.headers)
                problem = difference(mine, raw, relations[topic], checks_time=bool(mine.get("timestamp")))
                if problem is not None:
                    return problem
        return ""


def _compared(answer: Result | Changes, response: Any) -> str:
    """Return how an answer differs from the response of a case, empty if it does not."""
    changes = [Change(row) for row in answer.rows] if isinstance(answer, Result) else _taken(answer)
    items = (response or {}).get("query")
    if not isinstance(items, list):
        return "" if response is None else f"a response of another kind: {response!r:.100}"
    header: dict[str, Any] = next((item["header"] for item in items if "header" in item), {})
    is_push = not isinstance(answer, Result)
    wanted = header.get("schema")
    if wanted is not None and _words(_schema(answer.columns, with_keys=" KEY" in wanted)) != _words(wanted):
        return f"schema is {_schema(answer.columns, with_keys=not is_push)}, not {wanted}"
    rows = [item["row"] for item in items if "row" in item]
    mine = [_plain(change.values) for change in changes]
    if len(rows) != len(mine):
        return f"{len(mine)} rows, not {len(rows)}: {mine!r:.300}"
    rest = list(mine)
    for row in rows:
        match = next((each for each in rest if same(row["columns"], each)), None)
        if match is None:
            return f"no row {row['columns']!r} in {mine!r:.300}"
        rest.remove(match)
    return ""


def _taken(changes: Changes) -> list[Change]:
    rows: list[Change] = []
    idle = 0
    try:
        while idle < _IDLE and (taken := changes.take(0.01)) is not None:
            idle = 0 if taken else idle + 1
            rows += taken
    finally:
        changes.close()
    return rows


def _schema(columns: tuple[ShownColumn, ...], *, with_keys: bool) -> str:
    keys = (" KEY" if column.is_key and with_keys else "" for column in columns)
    return ", ".join(f"`{column.name}` {column.type}{key}" for column, key in zip(columns, keys, strict=True))


def _words(schema: str) -> str:
    return " ".join(schema.split())


def _plain(values: list[Any]) -> Any:
    """Return the values of a row as JSON would give them."""
    return json.loads(_ENCODER.encode(values), parse_float=Decimal)
