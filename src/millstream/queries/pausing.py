"""Pause, resume and terminate the queries of an app, from any process that has its data directory.

Queries that share a topic, a step or a store are one part of the app and stop together (docs/adr/0092). A request has
to name all of them; one that does not is refused with the names that are missing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from millstream.batch.pausing import Pauses, StopKind, StoppedQuery, change_pauses, read_pauses
from millstream.errors import DefinitionError
from millstream.foundation.paths import state_dir
from millstream.sql.published import Published, PublishedPart, PublishedQuery

QueryState = Literal["RUNNING", "PAUSED", "TERMINATED"]
Verb = Literal["PAUSE", "RESUME", "TERMINATE"]


class QueryControl:
    """The states of an app's queries, and requests to change them.

    A paused query keeps its position and its state and goes on exactly there; a restart does not resume it.
    """

    def __init__(self, data_dir: Path, app: str, published: Published) -> None:
        self._state_dir = state_dir(data_dir, app)
        self._app = app
        self._published = published

    def states(self) -> dict[str, QueryState]:
        """Return what was asked of each query: RUNNING, PAUSED or TERMINATED."""
        pauses = read_pauses(self._state_dir)
        return {query.name: _state(query, pauses) for query in self._published.queries}

    def together(self) -> dict[str, list[str]]:
        """Return, for each query, the queries that stop with it, including itself."""
        return {name: list(part.queries) for part in self._published.parts for name in part.queries}

    def pause(self, *names: str) -> str:
        """Pause queries after the batch that is planned, without names the whole app; return what happens."""
        return self._change("PAUSE", names)

    def resume(self, *names: str) -> str:
        """Resume queries where they stopped, without names all that are paused; return what happens."""
        return self._change("RESUME", names)

    def terminate(self, *names: str) -> str:
        """Stop queries for good, without names all; their statements have to be removed from the file."""
        return self._change("TERMINATE", names)

    def change(self, verb: Verb, *names: str) -> str:
        """Carry out a request; return what happens."""
        return self._change(verb, names)

    def describe(self, verb: Verb, *names: str) -> str:
        """Return what a request would do, or raise the error that it would; nothing changes."""
        return self._change(verb, names, is_dry=True)

    def _change(self, verb: Verb, names: Sequence[str], *, is_dry: bool = False) -> str:
        queries = self._named(names) if names else list(self._published.queries)
        change = functools.partial(_CHANGES[verb], self, queries=queries, is_all=not names)
        if is_dry:
            change(read_pauses(self._state_dir))
        else:
            change_pauses(self._state_dir, change)
        return self._sentence(verb, queries, not names)

    def _named(self, names: Sequence[str]) -> list[PublishedQuery]:
        by_name = {query.name.upper(): query for query in self._published.queries}
        for name in names:
            if name.upper() not in by_name:
                known = ", ".join(query.name for query in self._published.queries) or "none"
                raise DefinitionError(f"app {self._app} has no query {name}", hint=f"its queries: {known}")
        return list({name.upper(): by_name[name.upper()] for name in names}.values())

    def _pause(self, pauses: Pauses, queries: list[PublishedQuery], is_all: bool) -> Pauses:
        if is_all:
            return msgspec.structs.replace(pauses, is_app_paused=True)
        return self._stop(pauses, queries, "paused", "PAUSE")

    def _terminate(self, pauses: Pauses, queries: list[PublishedQuery], is_all: bool) -> Pauses:
        if is_all and not queries:
            raise DefinitionError(f"app {self._app} has no queries", hint="stop the app, or PAUSE ALL")
        return self._stop(pauses, queries, "terminated", "TERMINATE")

    def _stop(self, pauses: Pauses, queries: list[PublishedQuery], kind: StopKind, verb: Verb) -> Pauses:
        self._check_whole(queries, verb)
        stopped = {query.name: StoppedQuery(kind, query.topics) for query in queries}
        kept = {name: query for name, query in pauses.queries.items() if query.kind == "terminated"}
        return msgspec.structs.replace(pauses, queries={**pauses.queries, **stopped, **kept})

    def _resume(self, pauses: Pauses, queries: list[PublishedQuery], is_all: bool) -> Pauses:
        if is_all:
            terminated = {name: query for name, query in pauses.queries.items() if query.kind == "terminated"}
            return Pauses(queries=terminated)
        if pauses.is_app_paused:
            raise DefinitionError(f"all of app {self._app} is paused, not single queries", hint="RESUME ALL")
        for query in queries:
            if _state(query, pauses) == "TERMINATED":
                raise DefinitionError(
                    f"query {query.name} was terminated and cannot be resumed",
                    hint="remove its statement from the file and start the app, then add it again: it starts over",
                )
        self._check_whole(queries, "RESUME")
        left = {name: query for name, query in pauses.queries.items() if name not in {each.name for each in queries}}
        return msgspec.structs.replace(pauses, queries=left)

    def _check_whole(self, queries: list[PublishedQuery], verb: Verb) -> None:
        """Refuse a request for some queries of a part, since one position serves all of them."""
        names = {query.name for query in queries}
        for part in self._parts(queries):
            missing = [name for name in part.queries if name not in names]
            named = [name for name in part.queries if name in names]
            if part.others:
                raise DefinitionError(
                    f"{verb} {named[0]} would also stop steps of Python that share its input: {', '.join(part.others)}",
                    hint="PAUSE ALL and RESUME ALL apply to the whole app",
                )
            if missing:
                both = ", ".join(_written(name) for name in part.queries)
                raise DefinitionError(
                    f"{verb} {named[0]} applies to {', '.join(missing)} as well, since they share topics, steps or "
                    f"state ({', '.join(part.topics)})",
                    hint=f"name all of them: {verb} {both}",
                )

    def _parts(self, queries: list[PublishedQuery]) -> list[PublishedPart]:
        names = {query.name for query in queries}
        return [part for part in self._published.parts if not names.isdisjoint(part.queries)]

    def _sentence(self, verb: Verb, queries: list[PublishedQuery], is_all: bool) -> str:
        listed = f"app {self._app}" if is_all and verb != "TERMINATE" else ", ".join(query.name for query in queries)
        is_single = is_all or len(queries) == 1
        if verb == "RESUME":
            return f"{listed} {'resumes' if is_single else 'resume'} where {'it' if is_single else 'they'} stopped"
        if verb == "PAUSE":
            return f"{listed} {'pauses' if is_single else 'pause'} after the batch that is planned, also over restarts"
        targets = ", ".join(dict.fromkeys(query.target for query in queries))
        return (
            f"{listed} {'stops' if len(queries) == 1 else 'stop'} for good after the batch that is planned; "
            f"the topics of {targets} stay, and state is discarded at the next start without the statements: "
            "remove them from the file"
        )


_CHANGES = {"PAUSE": QueryControl._pause, "RESUME": QueryControl._resume, "TERMINATE": QueryControl._terminate}


def _state(query: PublishedQuery, pauses: Pauses) -> QueryState:
    stopped = pauses.queries.get(query.name)
    if stopped is not None and stopped.kind == "terminated":
        return "TERMINATED"
    is_paused = pauses.is_app_paused or not pauses.topics.isdisjoint(query.topics)
    return "PAUSED" if is_paused else "RUNNING"


def _written(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"
