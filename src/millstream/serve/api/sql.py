"""SQL over HTTP: statements, queries that keep sending rows, and what can be queried.

No statement can name Python code: functions of users are unknown here, and definitions are forgotten with the request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from time import monotonic
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from millstream.errors import DefinitionError, MillstreamError
from millstream.queries.answers import Changes, Message, Result
from millstream.queries.binding import query_control, stored_sql, stored_tables
from millstream.queries.limits import Limits
from millstream.queries.listing import function_kinds
from millstream.queries.pausing import QueryControl, Verb
from millstream.queries.session import EARLIEST, SCANS, AnsweredStatement, Session
from millstream.serve.api.live import Seconds, stream_response
from millstream.serve.api.params import Name
from millstream.serve.api.topics import Done
from millstream.serve.operations import Operation
from millstream.serve.site import Site
from millstream.serve.stalls import BoundedWork
from millstream.sql.showing import ShownColumn

LIMITS = Limits(rows=10_000, bytes=10 << 20, read=1_000_000, read_bytes=256 << 20, seconds=10.0)
"""The limits of a request, whatever number of statements it has."""
SETTABLE = frozenset({EARLIEST, SCANS})
"""The settings of a request; others can name addresses, which a request must not make the server read."""
_TAKE_SECONDS = 0.3
_HEARTBEAT_SECONDS = 15.0

Sql = Annotated[str, Meta(min_length=1, max_length=100_000, description="Statements, each with a semicolon.")]


class SqlBody(msgspec.Struct, frozen=True, kw_only=True):
    sql: Sql
    app: Annotated[Name | None, Meta(description="Optional if only one app has SQL.")] = None
    settings: Annotated[dict[str, str], Meta(max_length=50, description="As SET does.")] = {}
    explain: Annotated[bool, Meta(description="Return the plans of the queries; nothing is executed.")] = False


class QueryBody(SqlBody, frozen=True, kw_only=True):
    format: Annotated[Literal["lines", "events"], Meta(description="Lines of JSON, or server-sent events.")] = "lines"
    seconds: Seconds = 600


class ColumnView(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a result, a stream or a table."""

    name: str
    type: str
    is_key: bool = False


class AnswerView(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a statement: rows with their columns, or a message."""

    statement: str
    columns: list[ColumnView] = []
    rows: list[list[Any]] = []
    message: str = ""


class SourceView(msgspec.Struct, frozen=True, kw_only=True):
    """A stream or table; ``is_stored`` if its rows are read from the state of the app."""

    name: str
    kind: str
    topic: str
    columns: list[ColumnView]
    is_windowed: bool
    is_stored: bool
    statement: str | None


class QueryView(msgspec.Struct, frozen=True, kw_only=True):
    """A query of an app; its state is RUNNING, PAUSED or TERMINATED."""

    name: str
    state: str
    together: Annotated[list[str], Meta(description="The queries that pause with it, which share its input.")]


class FunctionView(msgspec.Struct, frozen=True, kw_only=True):
    """A function; its kind is scalar, aggregate or table."""

    name: str
    kind: str


class CatalogView(msgspec.Struct, frozen=True, kw_only=True):
    """What SQL defines in an app, and the functions that every query can use."""

    app: str | None
    sources: list[SourceView]
    queries: list[QueryView]
    functions: list[FunctionView]


class ControlBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    verb: Literal["pause", "resume", "terminate"]
    queries: Annotated[list[Annotated[str, Meta(max_length=300)]], Meta(max_length=1000, description="None: all.")] = []
    app: Annotated[Name | None, Meta(description="Optional if only one app has SQL.")] = None
    dry_run: Annotated[bool, Meta(description="Only say what would happen.")] = False


class CatalogParams(msgspec.Struct, frozen=True, kw_only=True):
    app: Name | None = None


def execute_sql(site: Site, _: object, body: SqlBody) -> list[AnswerView]:
    """Execute statements that end; a query with EMIT CHANGES is refused."""
    answers = []
    with site.work.running():
        for executed in _executed(site, body):
            if not isinstance(executed.answer, Message | Result):
                executed.answer.close()
                raise DefinitionError("this statement does not end", hint="send it to /api/sql/query")
            answers.append(_answer(executed))
    return answers


class GrowingAnswer(NamedTuple):
    """Answers that are known, and the rows that follow."""

    body: QueryBody
    answers: list[AnswerView]
    changes: Changes | None
    work: BoundedWork


def query_sql(site: Site, _: object, body: QueryBody) -> GrowingAnswer:
    """Execute statements; the rows of the last one are sent as they arrive, until its LIMIT or until ``seconds``."""
    answers: list[AnswerView] = []
    with site.work.running():
        for executed in _executed(site, body):
            if not isinstance(executed.answer, Message | Result):
                return GrowingAnswer(body, answers, executed.answer, site.work)
            answers.append(_answer(executed))
    return GrowingAnswer(body, answers, None, site.work)


def show_catalog(site: Site, params: CatalogParams) -> CatalogView:
    """Return the streams, tables and functions that can be queried."""
    app = _app(site, params.app)
    published = None if app is None else stored_sql(site.directory.path, app)
    statements = {query.target: query.statement for query in published.queries} if published else {}
    return CatalogView(
        app=app,
        sources=[
            SourceView(
                name=each.relation.name,
                kind=each.relation.kind.lower(),
                topic=each.relation.topic,
                columns=[
                    *(ColumnView(name=name, type=str(kind), is_key=True) for name, kind in each.relation.keys.items()),
                    *(ColumnView(name=name, type=str(kind)) for name, kind in each.relation.values.items()),
                ],
                is_windowed=each.relation.window is not None,
                is_stored=each.store is not None,
                statement=statements.get(each.relation.name),
            )
            for each in (published.relations if published else ())
        ],
        queries=[] if app is None else _queries(query_control(site.directory.path, app)),
        functions=[FunctionView(name=name, kind=kind) for name, kind in function_kinds().items()],
    )


def control_queries(site: Site, _: object, body: ControlBody) -> Done:
    """Pause, resume or terminate queries; those that share their input have to be named together."""
    app = _app(site, body.app)
    if app is None:
        raise DefinitionError("no app here has SQL", hint="name an app")
    control, verb = query_control(site.directory.path, app), _VERBS[body.verb]
    return Done(done=(control.describe if body.dry_run else control.change)(verb, *body.queries))


_VERBS: dict[str, Verb] = {"pause": "PAUSE", "resume": "RESUME", "terminate": "TERMINATE"}


def _queries(control: QueryControl) -> list[QueryView]:
    together = control.together()
    return [QueryView(name=name, state=state, together=together[name]) for name, state in control.states().items()]


def apps_with_sql(site: Site) -> list[str]:
    """Return the apps that define streams or tables in SQL."""
    return [app for app in site.directory.apps() if stored_sql(site.directory.path, app).relations]


def _app(site: Site, given: str | None) -> str | None:
    """Return the app whose SQL is used: the given one, or the only one that has any."""
    if given is not None:
        return site.directory.check_app(given)
    apps = apps_with_sql(site)
    if len(apps) > 1:
        raise DefinitionError("several apps have SQL", hint=f"choose one with app: {', '.join(apps)}")
    return apps[0] if apps else None


def _executed(site: Site, body: SqlBody) -> Iterator[AnsweredStatement]:
    return _session(site, body.app, body.settings).execute(body.sql, explains=body.explain)


def _session(site: Site, given: str | None, settings: dict[str, str]) -> Session:
    directory, app = site.directory, _app(site, given)
    session = Session(
        lambda: directory.broker,
        published=None if app is None else stored_sql(directory.path, app),
        tables=dict if app is None else lambda: stored_tables(directory.path, app),
        limits=LIMITS,
        are_limits_shared=True,
        settable=SETTABLE,
        control=None if app is None else query_control(directory.path, app),
    )
    for name in settings:
        if not session.can_set(name):
            raise DefinitionError(f"setting {name!r:.100} is unknown here", hint=f"use one of {sorted(SETTABLE)}")
    session.catalog.settings.update(settings)
    return session


def _columns(columns: tuple[ShownColumn, ...]) -> list[ColumnView]:
    return [ColumnView(name=each.name, type=str(each.type), is_key=each.is_key) for each in columns]


def _answer(executed: AnsweredStatement) -> AnswerView:
    answer = executed.answer
    if isinstance(answer, Message):
        return AnswerView(statement=executed.statement, message=answer.text)
    assert isinstance(answer, Result)
    return AnswerView(
        statement=executed.statement, columns=_columns(answer.columns), rows=answer.rows, message=answer.note
    )


def _respond(stream: GrowingAnswer) -> Response:
    is_events = stream.body.format == "events"
    frame: Callable[[bytes], bytes] = (
        (lambda line: b"data: %s\n\n" % line) if is_events else (lambda line: line + b"\n")
    )
    media_type = "text/event-stream" if is_events else "application/x-ndjson"
    close = None if stream.changes is None else stream.changes.close
    return stream_response(_lines(stream, frame), media_type, close)


async def _lines(stream: GrowingAnswer, frame: Callable[[bytes], bytes]) -> AsyncIterator[bytes]:
    """Yield the lines: columns, rows, messages and at last why it ended."""
    for fields in _known(stream):
        yield frame(msgspec.json.encode(fields, enc_hook=repr))
    if stream.changes is None:
        return
    until = monotonic() + stream.body.seconds
    beat = monotonic() + _HEARTBEAT_SECONDS
    ended = False
    while not ended:
        taken = await run_in_threadpool(_taken, stream.changes, stream.work)
        if taken is None:
            ended, taken = True, [{"end": "limit reached"}]
        elif monotonic() > until:
            ended = True
            taken.append({"end": f"{stream.body.seconds:g} s are over"})
        elif not taken and monotonic() > beat:  # so that a client that is gone is noticed
            taken.append({"alive": True})
        ended = ended or any("error" in fields for fields in taken)
        beat = monotonic() + _HEARTBEAT_SECONDS if taken else beat
        for fields in taken:
            yield frame(msgspec.json.encode(fields, enc_hook=repr))


def _known(stream: GrowingAnswer) -> Iterator[dict[str, Any]]:
    for answer in stream.answers:
        if answer.columns:
            yield {"columns": answer.columns}
        yield from ({"row": row} for row in answer.rows)
        if answer.message:
            yield {"message": answer.message}
    if stream.changes is None:
        yield {"end": "complete"}
    else:
        yield {"columns": _columns(stream.changes.columns), "changes": True}


def _taken(changes: Changes, work: BoundedWork) -> list[dict[str, Any]] | None:
    """Return the next rows as lines; None after the last one."""
    try:
        with work.running():
            taken = changes.take(_TAKE_SECONDS)
    except MillstreamError as error:
        return [{"error": {"code": error.code, "message": error.message, "hint": error.hint}}]
    if taken is None:
        return None
    return [{"row": each.values, "deleted": True} if each.is_deleted else {"row": each.values} for each in taken]


OPERATIONS = (
    Operation(
        method="POST",
        path="/api/sql",
        summary="Execute SQL statements",
        handler=execute_sql,
        body=SqlBody,
        result=list[AnswerView],
    ),
    Operation(
        method="POST",
        path="/api/sql/query",
        summary="Execute a SQL query and send its rows as they arrive",
        handler=query_sql,
        body=QueryBody,
        media_types=("application/x-ndjson", "text/event-stream"),
        respond=_respond,
    ),
    Operation(
        method="POST",
        path="/api/sql/queries",
        summary="Pause, resume or terminate queries of an app",
        handler=control_queries,
        body=ControlBody,
        result=Done,
    ),
    Operation(
        method="GET",
        path="/api/sql/catalog",
        summary="The streams and tables of an app, and the functions, that SQL can query",
        handler=show_catalog,
        params=CatalogParams,
        result=CatalogView,
    ),
)
