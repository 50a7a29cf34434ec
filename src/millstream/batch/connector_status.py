"""The status of sources and sinks: written by the run that they belong to, read by any process on the host."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from millstream.batch.history import FailureReport
from millstream.foundation.paths import connector_file, connectors_dir
from millstream.foundation.small_file import read_file, replace_file

Direction: TypeAlias = Literal["source", "sink"]
ConnectorState: TypeAlias = Literal["running", "paused", "failed", "stopped"]

_SILENT_SECONDS = 10.0


class ConnectorStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a source or sink, at a wall-clock time in milliseconds."""

    name: str
    direction: Direction
    system: str
    """What it reads from or writes to, such as ``PostgresTable``."""
    guarantee: str
    at: int
    state: ConnectorState
    batch: int
    """The last batch that is done."""
    lineage: str = ""
    """Whose batch that is; a reset or a restored savepoint starts a new lineage."""
    waiting: int | None = None
    """Records, or what the source counts, that wait to be read or written; None if that is unknown."""
    records: int = 0
    """Records since the run started."""
    rejected: int = 0
    """Records since the run started that the error policy was applied to."""
    behind_ms: int | None = None
    """How far a source is behind the clock of its system."""
    failure: FailureReport | None = None
    """Why the last attempt failed, unless a batch was done since."""
    gauges: dict[str, float] = {}
    """What the connector itself reports."""

    def __str__(self) -> str:
        state = "" if self.state in ("running", "stopped") else f" ({self.state})"
        text = f"{self.name}{state}: {'?' if self.waiting is None else f'{self.waiting:,}'} waiting"
        if self.failure is None:
            return text
        kind = " (user code)" if self.failure.kind == "user code" else ""
        return f"{text}; attempt {self.failure.attempts} failed{kind}: {self.failure.message}"


def current_state(status: ConnectorStatus) -> str:
    """Return the state; a process that has died no longer writes it."""
    is_silent = status.state == "running" and time.time() - status.at / 1000 > _SILENT_SECONDS
    return "no heartbeat" if is_silent else status.state


def write_status(data_dir: Path, app: str, status: ConnectorStatus) -> None:
    """Replace the stored status; an error such as a full disk is ignored, since it must not end the run."""
    with contextlib.suppress(OSError):
        replace_file(connector_file(data_dir, app, status.name, "status"), msgspec.json.encode(status))


def connector_statuses(data_dir: Path, app: str) -> list[ConnectorStatus]:
    """Return the status of each source and sink that an app has started."""
    statuses: list[ConnectorStatus] = []
    for path in sorted(connectors_dir(data_dir, app).glob("*.status.json")):
        with contextlib.suppress(OSError):  # the others can still be shown
            status = read_file(path, ConnectorStatus)
            statuses += [] if status is None else [status]
    return statuses


def stored_status(data_dir: Path, app: str, name: str) -> ConnectorStatus | None:
    """Return the status of a source or sink, None if it has not run."""
    return next((status for status in connector_statuses(data_dir, app) if status.name == name), None)


def lost_intakes(data_dir: Path, app: str, name: str) -> int:
    """Return how many intakes of a source were committed according to its status, for a journal that has none."""
    status = stored_status(data_dir, app, name)
    return 0 if status is None else status.batch


def sink_problem(status: ConnectorStatus | None, lineage: str, batch: int) -> str | None:
    """Return why a journal that has done ``batch`` is not the one that the status was written with, or None."""
    if status is None or status.direction != "sink" or status.batch == 0 or not status.lineage:
        return None
    if status.lineage != lineage:
        return f"is lost or was replaced: batch {status.batch} of lineage {status.lineage!r} was written"
    if status.batch > batch:
        return f"is an old copy: it ends at batch {batch}, and batch {status.batch} was written"
    return None


def forget_sinks(data_dir: Path, app: str) -> None:
    """Delete the status of the sinks of an app, before their journals are removed on purpose."""
    for status in connector_statuses(data_dir, app):
        if status.direction == "sink":
            connector_file(data_dir, app, status.name, "status").unlink(missing_ok=True)


def forget_connectors(data_dir: Path, app: str, kept: set[str]) -> None:
    """Delete the status of connectors that an app no longer has."""
    for status in connector_statuses(data_dir, app):
        if status.name not in kept:
            connector_file(data_dir, app, status.name, "status").unlink(missing_ok=True)


def connector_apps(data_dir: Path) -> list[str]:
    """Return the apps and connect files that have sources or sinks on a data directory."""
    return sorted({path.parent.name for path in data_dir.glob("connectors/*/*.status.json")})
