"""What a stream can be joined with."""

from __future__ import annotations

from typing import Literal, TypeAlias

from millstream.dsl.handle import Handle
from millstream.dsl.table import Table
from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError
from millstream.functions import AnyFunction, Function, by_arity
from millstream.plan.joins import StreamStreamJoin
from millstream.plan.node import Node
from millstream.plan.stateful import StreamTableJoin
from millstream.serdes import SerdeLike, serde_for
from millstream.windows import JoinWindow

Kind: TypeAlias = Literal["inner", "left", "outer"]
_WITH_TABLE = {2: "(stream value, table value)", 3: "(key, stream value, table value)"}
_WITH_STREAM = {2: "(left value, right value)", 3: "(key, left value, right value)"}
_VERBS: dict[Kind, str] = {"inner": "join", "left": "left_join", "outer": "outer_join"}


def join_node(
    stream: Handle,
    kind: Kind,
    other: Handle,
    joiner: AnyFunction,
    within: JoinWindow | None,
    grace: Duration | None,
    value: SerdeLike,
    name: str | None,
) -> Node:
    """Return the join of a stream with whatever it is to be joined with."""
    verb = _VERBS[kind]
    if isinstance(other, Table):
        return _with_table(stream, kind, other, by_arity(verb, joiner, _WITH_TABLE), within, grace, value, name)
    if not isinstance(other, type(stream)):
        raise DefinitionError(f"{verb}() wants a stream or a table, not {other!r}", hint="make one with .to_table()")
    if grace is not None:
        raise DefinitionError(
            f"{verb}() of two streams has its grace in the window", hint='pass within=join_window("10 s", grace="5 s")'
        )
    if within is None:
        raise DefinitionError(
            f"{verb}() of two streams needs to know how close in time they meet",
            hint='pass within=join_window("10 s")',
        )
    return StreamStreamJoin(
        left=stream._node,
        right=other._node,
        joiner=by_arity(verb, joiner, _WITH_STREAM),
        kind=kind,
        within=within,
        value=serde_for(value),
        name=name,
    )


def _with_table(
    stream: Handle,
    kind: Kind,
    table: Table,
    joiner: Function,
    within: JoinWindow | None,
    grace: Duration | None,
    value: SerdeLike,
    name: str | None,
) -> Node:
    if kind == "outer" or within is not None:
        what = "an outer join" if kind == "outer" else "a window"
        raise DefinitionError(
            f"a join of a stream with a table cannot have {what}", hint="use join() or left_join() without within="
        )
    return StreamTableJoin(
        stream=stream._node,
        table=table._node,
        joiner=joiner,
        left=kind == "left",
        grace=None if grace is None else milliseconds(grace),
        value=serde_for(value),
        name=name,
    )
