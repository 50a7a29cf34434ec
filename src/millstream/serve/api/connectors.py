"""Sources and sinks: their state, position and last error; pause, resume, restart, read a table again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from millstream.batch.connector_status import ConnectorStatus, connector_apps, connector_statuses, current_state
from millstream.connect.control import pause, read_control, request_snapshot, restart
from millstream.connect.positions import positions
from millstream.errors import DefinitionError, MillstreamError, UnknownTableError
from millstream.serve.api.params import Name
from millstream.serve.api.topics import Done
from millstream.serve.operations import Nothing, Operation
from millstream.serve.site import Site


class ConnectorSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A source or sink, at its last report; ``paused`` is what was asked of it, ``state`` what it does."""

    app: str
    state: str
    paused: bool
    status: ConnectorStatus


class ConnectorDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A source or sink with its position, and the tables that it was asked to read again."""

    app: str
    state: str
    paused: bool
    status: ConnectorStatus
    positions: dict[str, str]
    snapshots: list[str]


class ConnectorParams(msgspec.Struct, frozen=True, kw_only=True):
    app: Name
    connector: Name


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing more to say than the path."""


class SnapshotRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table to read again, with its schema."""

    table: Annotated[str, Meta(min_length=1, max_length=200)]


def list_connectors(site: Site, _: Nothing | None = None) -> list[ConnectorSummary]:
    """Return all sources and sinks, by app."""
    path = site.directory.path
    return [
        ConnectorSummary(
            app=app,
            state=current_state(status),
            paused=read_control(path, app, status.name).paused,
            status=status,
        )
        for app in connector_apps(path)
        for status in connector_statuses(path, app)
    ]


def get_connector(site: Site, params: ConnectorParams) -> ConnectorDetail:
    """Return one source or sink."""
    status, path = _status(site, params), site.directory.path
    try:
        reached = positions(path, params.app, params.connector)
    except MillstreamError:  # its journal is not written yet, or is being deleted
        reached = {}
    control = read_control(path, params.app, params.connector)
    return ConnectorDetail(
        app=params.app,
        state=current_state(status),
        paused=control.paused,
        status=status,
        positions=reached,
        snapshots=list(control.snapshots),
    )


def pause_connector(site: Site, params: ConnectorParams, _: Request) -> Done:
    """Ask a source or sink to pause after its current batch."""
    name = _status(site, params).name
    pause(site.directory.path, params.app, name)
    return Done(done=f"{name} pauses after its current batch")


def resume_connector(site: Site, params: ConnectorParams, _: Request) -> Done:
    """Ask a source or sink to resume."""
    name = _status(site, params).name
    pause(site.directory.path, params.app, name, paused=False)
    return Done(done=f"{name} resumes")


def restart_connector(site: Site, params: ConnectorParams, _: Request) -> Done:
    """Ask a source or sink to continue with a new connection, also if it has failed."""
    name = _status(site, params).name
    restart(site.directory.path, params.app, name)
    return Done(done=f"{name} restarts")


def snapshot_connector(site: Site, params: ConnectorParams, body: SnapshotRequest) -> Done:
    """Ask a source to read a table again while it goes on with the changes."""
    status = _status(site, params)
    if status.direction != "source":
        raise DefinitionError(f"{status.name!r} is a sink", hint="only a source can read a table again")
    request_snapshot(site.directory.path, params.app, status.name, body.table)
    return Done(done=f"{status.name} reads {body.table} again")


def _status(site: Site, params: ConnectorParams) -> ConnectorStatus:
    """Return the status of a connector that has run here; no path is built from a name before this check."""
    path = site.directory.path
    statuses = connector_statuses(path, params.app) if params.app in connector_apps(path) else []
    for status in statuses:
        if status.name == params.connector:
            return status
    names = ", ".join(status.name for status in statuses) or "none yet"
    raise UnknownTableError(
        f"{params.app!r} has no source or sink {params.connector!r}", hint=f"it has: {names}", app=params.app
    )


def _request(verb: str, summary: str, handler: Callable[..., Done], body: type[msgspec.Struct] = Request) -> Operation:
    return Operation(
        method="POST",
        path=f"/api/connectors/{{app}}/{{connector}}/{verb}",
        summary=summary,
        handler=handler,
        params=ConnectorParams,
        body=body,
        result=Done,
    )


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/connectors",
        summary="List sources and sinks",
        handler=list_connectors,
        result=list[ConnectorSummary],
    ),
    Operation(
        method="GET",
        path="/api/connectors/{app}/{connector}",
        summary="Describe a source or sink",
        handler=get_connector,
        params=ConnectorParams,
        result=ConnectorDetail,
    ),
    _request("pause", "Pause a source or sink", pause_connector),
    _request("resume", "Resume a source or sink", resume_connector),
    _request("restart", "Restart a source or sink", restart_connector),
    _request("snapshot", "Let a source read a table again", snapshot_connector, SnapshotRequest),
)
