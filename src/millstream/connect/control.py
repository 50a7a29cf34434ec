"""What a user has asked of a running source or sink, from any process: pause, restart, snapshot."""

from __future__ import annotations

from pathlib import Path

import msgspec

from millstream.foundation.paths import connector_file
from millstream.foundation.small_file import read_file, replace_file


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """What a source or sink is asked to do."""

    paused: bool = False
    restarts: int = 0
    """Grows with each request to close the connection and to open it again."""
    snapshots: tuple[str, ...] = ()
    """The tables that a source is to read again."""


def read_control(data_dir: Path, app: str, name: str) -> Control:
    """Return what is asked of a source or sink."""
    return read_file(connector_file(data_dir, app, name, "control"), Control) or Control()


def write_control(data_dir: Path, app: str, name: str, control: Control) -> None:
    """Replace what is asked of a source or sink."""
    replace_file(connector_file(data_dir, app, name, "control"), msgspec.json.encode(control), sync=True)


def pause(data_dir: Path, app: str, name: str, *, paused: bool = True) -> None:
    """Ask a source or sink to pause, or to resume; it stays paused when the app is started again."""
    control = read_control(data_dir, app, name)
    write_control(data_dir, app, name, msgspec.structs.replace(control, paused=paused))


def restart(data_dir: Path, app: str, name: str) -> None:
    """Ask a source or sink to close its connection and to continue with a new one, also if it has failed."""
    control = read_control(data_dir, app, name)
    write_control(data_dir, app, name, msgspec.structs.replace(control, restarts=control.restarts + 1))


def request_snapshot(data_dir: Path, app: str, name: str, table: str) -> None:
    """Ask a source to read a table again."""
    control = read_control(data_dir, app, name)
    if table not in control.snapshots:
        snapshots = (*control.snapshots, table)
        write_control(data_dir, app, name, msgspec.structs.replace(control, snapshots=snapshots))


def finish_snapshot_request(data_dir: Path, app: str, name: str, table: str) -> None:
    """Remove a request once the position of the source includes the snapshot."""
    control = read_control(data_dir, app, name)
    left = tuple(requested for requested in control.snapshots if requested != table)
    write_control(data_dir, app, name, msgspec.structs.replace(control, snapshots=left))
