"""Paths in a data directory: for each app its lock, its journal and its state."""

from __future__ import annotations

from pathlib import Path

from millstream.foundation.names import check_name, is_valid_name

DEFAULT_DATA_DIR = "millstream-data"


def app_dir(data_dir: Path, app: str) -> Path:
    """Return the directory of an app."""
    return data_dir / "apps" / check_name("app", app)


def lock_file(data_dir: Path, app: str) -> Path:
    """Return the file that is locked while the app runs."""
    return app_dir(data_dir, app) / "lock"


def lease_file(data_dir: Path, app: str) -> Path:
    """Return the file that is locked by the process that plans the app's batches."""
    return app_dir(data_dir, app) / "lease"


def activity_file(data_dir: Path, app: str) -> Path:
    """Return the file to which a run writes its current activity."""
    return app_dir(data_dir, app) / "activity.json"


def journal_dir(data_dir: Path, app: str) -> Path:
    """Return the directory of the app's batch journal."""
    return app_dir(data_dir, app) / "journal"


def state_dir(data_dir: Path, app: str) -> Path:
    """Return the directory with the state of all the app's tasks."""
    return app_dir(data_dir, app) / "state"


def profile_dir(state_dir: Path) -> Path:
    """Return the directory through which processes are asked for a profile of the app with this state directory."""
    return state_dir.with_name("profile")


def paused_file(state_dir: Path) -> Path:
    """Return the file with what users have paused in the app with this state directory."""
    return state_dir.with_name("paused.json")


def copies_dir(data_dir: Path, app: str) -> Path:
    """Return the directory with copies of the app's tables, for reading them while it runs on other hosts."""
    return app_dir(data_dir, app) / "copies"


def fill_dir(data_dir: Path, app: str) -> Path:
    """Return the directory with journal and state of the tables that are being filled from the past."""
    return app_dir(data_dir, app) / "fill"


def delivery_dir(data_dir: Path, app: str, topic: str) -> Path:
    """Return the directory with the journal of a sink, which an app feeds through a topic."""
    return app_dir(data_dir, app) / "deliveries" / check_name("topic", topic)


def connectors_dir(data_dir: Path, app: str) -> Path:
    """Return the directory of the sources of an app, and of the status of its sources and sinks.

    It is not part of the app's directory: a reset or a restored savepoint changes neither the topics that sources have
    written nor their positions.
    """
    return data_dir / "connectors" / check_name("app", app)


def source_dir(data_dir: Path, app: str, name: str) -> Path:
    """Return the directory with the journal of a source."""
    return connectors_dir(data_dir, app) / check_name("source", name)


def connector_file(data_dir: Path, app: str, name: str, kind: str) -> Path:
    """Return a small file of a source or sink: its status, its control or its clock."""
    return connectors_dir(data_dir, app) / f"{check_name('connector', name)}.{kind}.json"


def has_run(data_dir: Path, app: str) -> bool:
    """Whether an app has run on a data directory; False for an invalid name."""
    return is_valid_name(app) and journal_dir(data_dir, app).is_dir()


def app_names(data_dir: Path) -> list[str]:
    """Return the names of the apps that have run on a data directory."""
    return sorted(path.parent.name for path in data_dir.glob("apps/*/journal"))
