"""A session: executes statements one after the other against a broker and the tables of an app."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, singledispatchmethod
from typing import NamedTuple, NoReturn

from millstream.broker import Broker, TopicConfig
from millstream.dsl.sources import Sources
from millstream.errors import UnknownTopicError
from millstream.plan.describe import describe
from millstream.plan.topology import Plan
from millstream.producer import Producer
from millstream.queries.answers import Answer, Message, Result, text_columns
from millstream.queries.limits import Budget, Limits
from millstream.queries.listing import Listing
from millstream.queries.pausing import QueryControl
from millstream.queries.printing import PrintedTopic
from millstream.queries.pulling import pulled
from millstream.queries.pushing import PushQuery, Topology, result_so_far
from millstream.serdes import RAW
from millstream.sql.catalog import Catalog
from millstream.sql.lookups import Lookup, lookup_of
from millstream.sql.nodes import (
    Alter,
    AnyStatement,
    Control,
    CreateAs,
    CreateSource,
    CreateType,
    Describe,
    Drop,
    DropType,
    Explain,
    InsertSelect,
    InsertValues,
    Print,
    Query,
    Select,
    Setting,
    Show,
)
from millstream.sql.parser.statements import parse
from millstream.sql.problems import Problem
from millstream.sql.published import Published, PublishedRelation
from millstream.sql.translate.inserting import Insertion
from millstream.sql.translate.query import uses_aggregates
from millstream.sql.translate.reading import Readers
from millstream.sql.translate.statements import Statements, located
from millstream.tables.rows import TableReader

EARLIEST = "auto.offset.reset"
SCANS = "ksql.query.pull.table.scan.enabled"


class AnsweredStatement(NamedTuple):
    """A statement's text and its answer."""

    statement: str
    answer: Answer


class Session:
    """Executes statements; definitions are known to later statements of the session, and to nothing else.

    ``published`` are the streams and tables of the app that the session is bound to, ``tables`` returns its stored
    tables by name.
    """

    def __init__(
        self,
        connect: Callable[[], Broker],
        *,
        published: Published | None = None,
        catalog: Catalog | None = None,
        tables: Callable[[], Mapping[str, TableReader]] = dict,
        limits: Limits | None = None,
        are_limits_shared: bool = False,
        new_topic: TopicConfig | None = None,
        settable: frozenset[str] | None = None,
        control: QueryControl | None = None,
    ) -> None:
        """Execute statements for an app, or without one; ``control`` changes its queries.

        ``settable`` are the settings that statements may change; None: all, which includes addresses to read.

        With ``are_limits_shared`` the limits are those of all statements together, not of each query.
        """
        self._connect = connect
        self._published = published or Published()
        self.catalog = catalog or self._published.catalog()
        self._tables = tables
        self.limits = limits or Limits()
        self._shared = Budget(self.limits) if are_limits_shared else None
        self._new_topic = new_topic or TopicConfig()
        self._control_of_queries = control
        self._settable = settable
        self._statements = Statements(self.catalog, lambda: Readers(Sources("query")))

    def can_set(self, name: str) -> bool:
        """Whether statements may change a setting."""
        return self._settable is None or name in self._settable

    @cached_property
    def _broker(self) -> Broker:
        return self._connect()

    def close(self) -> None:
        """Close the broker, if it is open."""
        if "_broker" in self.__dict__:
            self._broker.close()
            del self.__dict__["_broker"]

    def execute(self, text: str, *, explains: bool = False) -> Iterator[AnsweredStatement]:
        """Execute the statements of a text one by one; an error says where in the text it is.

        With ``explains``, queries are answered with their plans, definitions are applied, and the rest is refused.
        """
        catalog = self.catalog
        for statement in parse(text, catalog.types, catalog.variables, catalog.functions):
            with located(text, statement):
                if self._shared is not None:
                    self._shared.check_time()
                answer = self._answer(_explanation(statement) if explains else statement)
                if self._shared is not None and isinstance(answer, Result) and not isinstance(statement, Select):
                    self._shared.add_rows(answer.rows)  # a query has counted its own
            yield AnsweredStatement(text[statement.start : statement.end], answer)

    @singledispatchmethod
    def _answer(self, statement: AnyStatement) -> Answer:
        _refuse(statement)

    @_answer.register(CreateSource)
    @_answer.register(CreateType)
    @_answer.register(DropType)
    @_answer.register(Drop)
    @_answer.register(Alter)
    @_answer.register(Setting)
    def _define(self, statement: CreateSource | CreateType | DropType | Drop | Alter | Setting) -> Answer:
        if isinstance(statement, Setting) and statement.verb.endswith("SET") and not self.can_set(statement.name):
            raise Problem(statement.start, f"'{statement.name}' cannot be set here", "set it where the app runs")
        self._statements.apply(statement)
        if isinstance(statement, CreateSource):
            return Message(f"{statement.kind.lower()} {statement.name} is known to this session")
        return Message("done")

    @_answer.register
    def _insert(self, statement: InsertValues) -> Answer:
        insertion = self._statements.apply(statement).insertion
        assert insertion is not None
        relation = self.catalog.find(statement.target, statement.start)
        self._create_topic(insertion.topic, relation.partitions)
        self._append(insertion)
        return Message(f"1 record inserted into {insertion.topic}")

    def _create_topic(self, name: str, partitions: int | None) -> None:
        try:
            self._broker.topic(name)
        except UnknownTopicError:
            count = partitions or self._new_topic.partitions
            self._broker.create_topic(name, TopicConfig(partitions=count))

    def _append(self, insertion: Insertion) -> None:
        with Producer(self._broker, key=RAW, value=RAW) as producer:
            producer.send(insertion.topic, insertion.value, key=insertion.key, timestamp=insertion.timestamp)

    # Queries

    @_answer.register
    def _select(self, statement: Select) -> Answer:
        try:
            return self._selected(statement.query)
        except UnknownTopicError as error:
            known = self._broker.topic_names()
            results = (each for each in self.catalog.relations.values() if each.query and each.topic not in known)
            missing = next((each for each in results if repr(each.topic) in str(error)), None)
            if missing is None:
                raise
            raise Problem(
                statement.query.offset,
                f"{missing.name} has no rows yet: the query that computes it has not run here",
                "run its app: millstream run FILE.sql; or choose its data directory with --data-dir",
            ) from error

    def _selected(self, query: Query) -> Answer:
        if query.emit is not None:
            start = self.catalog.settings.get(EARLIEST, "latest").lower()
            return PushQuery(query, self.catalog, self._broker, from_beginning=start == "earliest")
        budget = self._shared or Budget(self.limits)
        stored = self._stored(query)
        if stored is not None:
            lookup, published, reader = stored
            self._check_scan(lookup, reader, query)
            return pulled(lookup, published, reader, budget)
        return result_so_far(query, self.catalog, self._broker, budget)

    def _check_scan(self, lookup: Lookup, reader: TableReader, query: Query) -> None:
        """Refuse to read all rows if the session has disabled that."""
        is_scan = lookup.keys is None and (lookup.is_scan or reader.has_windows)
        if is_scan and self.catalog.settings.get(SCANS, "true").lower() == "false":
            raise Problem(query.offset, f"the query reads all rows, but '{SCANS}' is 'false'", "look up keys")

    def _stored(self, query: Query) -> tuple[Lookup, PublishedRelation, TableReader] | None:
        """Return how a query reads a stored table; None if it has to read topics."""
        if query.source.query is not None:
            return None
        if query.joins or query.group_by is not None or query.partition_by is not None or uses_aggregates(query):
            return None
        relation = self.catalog.find(query.source.name, query.source.offset)
        published = next((each for each in self._published.relations if each.relation == relation), None)
        if published is None or published.store is None:
            return None
        reader = self._tables().get(published.store)
        return None if reader is None else (lookup_of(query, relation), published, reader.without_routing())

    # Commands

    @_answer.register
    def _control(self, statement: Control) -> Answer:
        return Message(self._controlled(statement, is_dry=False))

    def _controlled(self, statement: Control, *, is_dry: bool) -> str:
        control = self._control_of_queries
        if control is None:
            raise Problem(statement.start, f"{statement.verb} needs an app", "choose one that has run, with its name")
        if is_dry:
            return control.describe(statement.verb, *statement.names)
        return control.change(statement.verb, *statement.names)

    @_answer.register
    def _show(self, statement: Show) -> Answer:
        return self._listing.show(statement)

    @_answer.register
    def _describe(self, statement: Describe) -> Answer:
        return self._listing.describe(statement)

    @property
    def _listing(self) -> Listing:
        states = {} if self._control_of_queries is None else self._control_of_queries.states()
        return Listing(self.catalog, self._published, self.limits, lambda: self._broker, states)

    @_answer.register
    def _print(self, statement: Print) -> Answer:
        return PrintedTopic(statement, self.catalog, self._broker)

    @_answer.register
    def _explain(self, statement: Explain) -> Answer:
        explained = statement.explained
        if isinstance(explained, Control):
            return Message(self._controlled(explained, is_dry=True))
        if isinstance(explained, str):
            explained = self._query_named(explained, statement)
        if isinstance(explained, Select) and (text := self._explained_lookup(explained.query)):
            return _lines(text)
        if isinstance(explained, Select):
            return _lines(describe(Topology(explained.query, self.catalog).plan, "text"))
        sources, catalog = Sources("query"), self._without_result(explained)
        Statements(catalog, lambda: Readers(sources)).apply(explained)
        return _lines(describe(Plan.of(sources._draft), "text"))

    def _explained_lookup(self, query: Query) -> str:
        stored = None if query.emit is not None else self._stored(query)
        if stored is None:
            return ""
        lookup, published, reader = stored
        shown = lookup.shown
        columns = zip(shown.columns, shown.expressions, strict=False)
        steps = [
            f"read {lookup.kind} of the stored table {reader.name} of {reader.partitions} partitions",
            *(f"apply {step.clause}, which is not stored" for step in published.steps),
            *(["keep rows where the condition of WHERE holds"] if lookup.where is not None else []),
            *(["sort by ORDER BY"] if shown.descending else []),
            *(f"show {column.name} {column.type} = {text}" for column, text in columns),
        ]
        return "\n".join(steps)

    def _query_named(self, name: str, statement: Explain) -> CreateAs | InsertSelect:
        query = next((each for each in self._published.queries if each.name.upper() == name.upper()), None)
        if query is None:
            names = ", ".join(each.name for each in self._published.queries) or "none"
            raise Problem(statement.start, f"query {name} is unknown", f"queries: {names}; EXPLAIN SELECT … works too")
        [parsed] = parse(query.statement, self.catalog.types, functions=self.catalog.functions)
        assert isinstance(parsed, CreateAs | InsertSelect)
        return parsed

    def _without_result(self, statement: CreateAs | InsertSelect) -> Catalog:
        """Return a copy of the catalog in which a statement can be executed again."""
        catalog = Catalog()
        for name in ("relations", "types", "functions", "settings", "variables"):
            getattr(catalog, name).update(getattr(self.catalog, name))
        if isinstance(statement, CreateAs):
            catalog.relations.pop(statement.name, None)
        return catalog


def _explanation(statement: AnyStatement) -> AnyStatement:
    """Return what explains a statement; a definition is its own explanation."""
    if isinstance(statement, Select | CreateAs | InsertSelect | Control):
        return Explain(explained=statement, start=statement.start, end=statement.end)
    if isinstance(statement, Explain | CreateSource | CreateType | DropType | Drop | Alter | Setting):
        return statement
    raise Problem(statement.start, "only a query can be explained", "explain a SELECT, or run this statement")


def _lines(text: str) -> Result:
    return Result(text_columns("PLAN"), [[line] for line in text.rstrip().split("\n")])


def _refuse(statement: AnyStatement) -> NoReturn:
    if isinstance(statement, CreateAs | InsertSelect):
        raise Problem(
            statement.start,
            "a query that writes to a topic is part of an app",
            "put it into a file and run it: millstream run FILE.sql; SELECT … EMIT CHANGES shows its rows here",
        )
    raise Problem(statement.start, f"{type(statement).__name__.upper()} cannot be used here", "put it into a file")
