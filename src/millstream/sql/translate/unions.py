"""UNION ALL: the records of several queries as one stream."""

from __future__ import annotations

from typing import Any

from millstream.dsl.stream import Stream
from millstream.plan.select import Select
from millstream.plan.stateless import Merge
from millstream.sql.coercion import can_pass
from millstream.sql.nodes import Query
from millstream.sql.problems import Problem
from millstream.sql.selection import SqlSelection
from millstream.sql.translate.result import DefinedResult
from millstream.sql.types import quoted


def is_stateful(query: Query) -> bool:
    """Whether a query keeps state, so that its steps need a name that does not change."""
    sources = (query.source, *(join.source for join in query.joins))
    inner = [source.query for source in sources if source.query is not None]
    return bool(query.joins) or query.group_by is not None or any(map(is_stateful, [*inner, *query.unions]))


def source_names(query: Query) -> str:
    """Return the names of the sources of a query, to name its steps."""
    return "-".join((query.source.name, *(join.source.name for join in query.joins)))


def branch_names(name: str, query: Query) -> list[str]:
    """Return the names of the queries of a UNION ALL: by their sources, so that they can change places."""
    names: list[str] = []
    for branch in (query, *query.unions):
        candidate = f"{name}.{source_names(branch)}"
        if candidate in names and is_stateful(branch):
            raise Problem(
                branch.offset,
                f"two queries of UNION ALL read {source_names(branch)} and keep state",
                "give their sources different names: WITH name AS (SELECT …)",
            )
        names.append(candidate)
    return names


def merged(query: Query, results: list[DefinedResult]) -> DefinedResult:
    """Return the result of a UNION ALL; its columns are those of the first query."""
    first = results[0]
    streams: list[Any] = []
    for branch, result in zip((query, *query.unions), results, strict=True):
        if result.kind != "STREAM":
            raise Problem(branch.offset, "UNION ALL needs streams, this query results in a TABLE", "use a stream")
        _check_columns(branch, result, first)
        streams.append(_renamed(result, first))
    node = Merge(sources=tuple(stream._node for stream in streams))
    handle = Stream(first.handle._draft, node)
    is_rekeyed = any(result.is_rekeyed for result in results)
    return DefinedResult(handle, "STREAM", first.keys, first.values, first.window, first.origin, is_rekeyed=is_rekeyed)


def _check_columns(branch: Query, result: DefinedResult, first: DefinedResult) -> None:
    if list(result.keys.values()) != list(first.keys.values()) or result.window != first.window:
        raise Problem(branch.offset, "the queries of UNION ALL have different keys", "use PARTITION BY in one of them")
    if len(result.values) != len(first.values):
        raise Problem(
            branch.offset,
            f"the first query of UNION ALL has {len(first.values)} columns beside its key, this one has "
            f"{len(result.values)}",
            "select the same number of columns",
        )
    for (name, type), (column, wanted) in zip(result.values.items(), first.values.items(), strict=True):
        if not can_pass(type, wanted):
            raise Problem(
                branch.offset,
                f"column {name} {type} does not match {column} {wanted} of the first query of UNION ALL",
                f"CAST({name} AS {wanted})",
            )


def _renamed(result: DefinedResult, first: DefinedResult) -> Any:
    """Return a stream whose columns have the names and types of the first query."""
    if result.values == first.values and list(result.values) == list(first.values):
        return result.handle
    selection = SqlSelection(
        scope=tuple((name, str(type), "value") for name, type in result.values.items()),
        columns=tuple((new, quoted(old)) for new, old in zip(first.values, result.values, strict=True)),
        types=tuple(map(str, first.values.values())),
    )
    return Stream(result.handle._draft, Select(source=result.handle._node, selection=selection))
