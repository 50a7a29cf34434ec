"""The nodes of joins of a stream with another stream, a table or a global table."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from millstream.dsl.global_table import GlobalTable
from millstream.dsl.handle import Handle
from millstream.dsl.table import Table
from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError
from millstream.functions import AnyFunction, Function, by_arity
from millstream.plan.joins import StreamGlobalJoin, StreamStreamJoin
from millstream.plan.node import Node
from millstream.plan.sources import GlobalTableSource
from millstream.plan.stateful import StreamTableJoin
from millstream.serdes import SerdeLike, serde_for
from millstream.windows import JoinWindow, check_join_window

Kind: TypeAlias = Literal["inner", "left", "outer"]
_WITH_TABLE = {2: "(stream value, table value)", 3: "(key, stream value, table value)"}
_WITH_STREAM = {2: "(left value, right value)", 3: "(key, left value, right value)"}
_VERBS: dict[Kind, str] = {"inner": "join", "left": "left_join", "outer": "outer_join"}


class JoinSettings(NamedTuple):
    """Options of ``join`` and its variants; not every option applies to every kind of partner."""

    within: JoinWindow | None = None
    grace: Duration | None = None
    key: AnyFunction | None = None
    value: SerdeLike = None
    name: str | None = None
    late_to: str | None = None


def join_node(stream: Handle, kind: Kind, other: Handle, joiner: AnyFunction, settings: JoinSettings) -> Node:
    """Return the node that joins a stream with ``other``."""
    verb = _VERBS[kind]
    if isinstance(other, GlobalTable):
        return _with_global_table(stream, kind, other, joiner, settings)
    if settings.key is not None:
        raise DefinitionError(
            f"{verb}(key=) is for global tables; streams and tables are joined by the record's key",
            hint="re-key the stream first: .select_key(...)",
        )
    if isinstance(other, Table):
        return _with_table(stream, kind, other, by_arity(verb, joiner, _WITH_TABLE), settings)
    if not isinstance(other, type(stream)):
        raise DefinitionError(
            f"{verb}() expects a stream or a table, not {other!r}", hint="use .to_table() for a table"
        )
    if settings.grace is not None:
        raise DefinitionError(
            f"{verb}() of two streams takes the grace in the window",
            hint='pass within=join_window("10 s", grace="5 s")',
        )
    if settings.within is None:
        raise DefinitionError(
            f"{verb}() of two streams needs a window",
            hint='pass within=join_window("10 s")',
        )
    check_join_window(settings.within)
    return StreamStreamJoin(
        left=stream._node,
        right=other._node,
        joiner=by_arity(verb, joiner, _WITH_STREAM),
        kind=kind,
        within=settings.within,
        value=serde_for(settings.value),
        name=settings.name,
        late_to=settings.late_to,
    )


def _with_table(stream: Handle, kind: Kind, table: Table, joiner: Function, settings: JoinSettings) -> Node:
    _check_lookup(kind, settings)
    return StreamTableJoin(
        stream=stream._node,
        table=table._node,
        joiner=joiner,
        left=kind == "left",
        grace=None if settings.grace is None else milliseconds(settings.grace),
        value=serde_for(settings.value),
        name=settings.name,
    )


def _with_global_table(
    stream: Handle, kind: Kind, table: GlobalTable, joiner: AnyFunction, settings: JoinSettings
) -> Node:
    _check_lookup(kind, settings)
    if settings.grace is not None:
        raise DefinitionError(
            "a join with a global table cannot wait: its time is independent of the stream's",
            hint="remove grace=, or use app.table(..., history=...)",
        )
    source = table._node
    if source not in stream._draft.nodes or not isinstance(source, GlobalTableSource):
        raise DefinitionError("this global table belongs to another app", hint="read its topic in this app too")
    verb = _VERBS[kind]
    return StreamGlobalJoin(
        stream=stream._node,
        topic=source.topics[0],
        key_of=None if settings.key is None else by_arity(verb, settings.key),
        joiner=by_arity(verb, joiner, _WITH_TABLE),
        left=kind == "left",
        value=serde_for(settings.value),
        name=settings.name,
    )


def _check_lookup(kind: Kind, settings: JoinSettings) -> None:
    if settings.late_to is not None:
        raise DefinitionError("only a join of two streams has late records", hint="remove late_to=")
    if kind == "outer" or settings.within is not None:
        problem = "be an outer join" if kind == "outer" else "have a window"
        raise DefinitionError(
            f"a join of a stream with a table cannot {problem}", hint="use join() or left_join() without within="
        )
