"""Run a case: each query is an app of its own, and gets its input record by record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from millstream.app import App
from millstream.config import Config
from millstream.errors import MillstreamError, SqlError
from millstream.sql.catalog import Catalog, Relation
from millstream.sql.registries import URL, RegistryAddress, use_client
from millstream.sql.translate.reading import Readers
from millstream.sql.translate.statements import DefinedStatement, Statements
from millstream.testing.driver import TestDriver
from millstream.testing.ksql.cases import Case
from millstream.testing.ksql.extensions import EXTENSIONS
from millstream.testing.ksql.functions import test_functions
from millstream.testing.ksql.records import Raw, Writer, difference, raw_record
from millstream.testing.ksql.registry import MemoryRegistry, schemas_of
from millstream.testing.ksql.schemas import wrong_sources

Verdict = Literal["passed", "failed", "refused", "exceeded"]


class Outcome(NamedTuple):
    """Whether a case passes, and why not."""

    verdict: Verdict
    reason: str = ""


class _Query(NamedTuple):
    app: App
    executed: DefinedStatement
    relations: dict[str, Relation]
    """The relations by topic, at the time of the query."""


def run_queries(case: Case) -> Outcome:
    """Run a case of the suite ``qtt``."""
    return judged(case, lambda: _CaseRun(case).outcome())


def judged(case: Case, run: Callable[[], Outcome]) -> Outcome:
    """Return the outcome of a case; an error is what a refusal expects."""
    try:
        with test_functions():
            return run()
    except SqlError as error:
        return Outcome("passed") if case.is_refusal else Outcome("refused", str(error))
    except Exception as error:
        if case.is_refusal and isinstance(error, MillstreamError):
            return Outcome("passed")
        return Outcome("failed", f"{type(error).__name__}: {error}")


class _CaseRun:
    def __init__(self, case: Case) -> None:
        self._case = case
        self._catalog = Catalog()
        self._registry = MemoryRegistry()
        self._schemas = schemas_of(self._registry, case.topics)
        use_client(RegistryAddress(self._registry.url), self._registry)
        self._catalog.settings[URL] = self._registry.url
        self._catalog.settings.update({name: str(value) for name, value in (case.properties or {}).items()})
        self._apps: list[App] = []
        self._topics: defaultdict[str, list[Raw]] = defaultdict(list)
        self._relations: dict[str, Relation] = {}

    def _new_app(self) -> Readers:
        app = App(f"q{len(self._apps)}", config=Config(on_error="fail", on_decode_error="skip"))
        self._apps.append(app)
        return Readers(app)

    def outcome(self) -> Outcome:
        """Execute the statements, run the queries, and compare."""
        queries: list[_Query] = []
        for executed in Statements(self._catalog, self._new_app).execute(self._case.text):
            if executed.relation is not None:
                self._relations[executed.relation.topic] = executed.relation
            if executed.handle is not None:
                queries.append(_Query(self._apps[-1], executed, dict(self._relations)))
            elif executed.insertion is not None:
                insertion = executed.insertion
                raw = Raw(insertion.key, insertion.value, insertion.timestamp or 0)
                self._topics[insertion.topic].append(raw)
        for query in queries:
            self._feed(query)
        if self._case.is_refusal:
            reason = EXTENSIONS.get(self._case.id)
            return Outcome("exceeded", reason) if reason else Outcome("failed", "it was not refused")
        wrong = wrong_sources(self._case.post, self._catalog)
        return Outcome("failed", wrong) if wrong else self._compared()

    def _feed(self, query: _Query) -> None:
        app, written = query.app, query.executed.relation
        wanted = app.plan.source_topics
        named = {record["topic"] for record in self._case.inputs}
        with TestDriver(app, one_stream_time=True) as driver:
            for record in self._case.inputs:
                if record["topic"] in wanted:
                    self._pipe(driver, record["topic"], raw_record(record, self._writer(query, record["topic"])))
            for topic in wanted:
                if topic not in named or self._topics[topic]:
                    for raw in list(self._topics[topic]):
                        self._pipe(driver, topic, raw)
            assert written is not None
            self._topics[written.topic] += [
                Raw(record.key, record.value, record.timestamp, record.headers)
                for record in driver.topic(written.topic).read_raw()
            ]

    def _writer(self, query: _Query, topic: str) -> Writer:
        relation = query.relations[topic]
        key, value = self._schemas.get((topic, "key")), self._schemas.get((topic, "value"))
        key_format, value_format = relation.key_format, relation.value_format
        return Writer(
            relation,
            (key_format, relation.keys)
            if key is None
            else key.parts(key_format.full_name, self._registry, is_key=True),
            (value_format, relation.values)
            if value is None
            else value.parts(value_format.full_name, self._registry, is_key=False),
        )

    @staticmethod
    def _pipe(driver: TestDriver, topic: str, raw: Raw) -> None:
        driver.topic(topic).pipe_raw(raw.value, key=raw.key, timestamp=raw.timestamp, headers=raw.headers)

    def _compared(self) -> Outcome:
        expected: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for record in self._case.outputs:
            expected[record["topic"]].append(record)
        for topic, records in expected.items():
            actual = self._topics[topic]
            relation = self._relations.get(topic)
            if relation is None:
                return Outcome("failed", f"topic {topic} was not written")
            checks_time = bool(self._case.inputs)
            for number, (mine, its) in enumerate(zip(records, actual, strict=False)):
                problem = difference(mine, its, relation, checks_time=checks_time or bool(mine.get("timestamp")))
                if problem is not None:
                    return Outcome("failed", f"record {number} of {topic}: {problem}")
            if len(records) != len(actual):
                extra = [raw.value for raw in actual[len(records) :]][:3]
                return Outcome("failed", f"{topic} has {len(actual)} records, not {len(records)}; further: {extra!r}")
        return Outcome("passed")
