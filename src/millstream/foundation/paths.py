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


def fill_dir(data_dir: Path, app: str) -> Path:
    """Return the directory with journal and state of the tables that are being filled from the past."""
    return app_dir(data_dir, app) / "fill"


def delivery_dir(data_dir: Path, app: str, topic: str) -> Path:
    """Return the directory with the journal of the records that an app delivers to Spark through a topic."""
    return app_dir(data_dir, app) / "deliveries" / check_name("topic", topic)


def has_run(data_dir: Path, app: str) -> bool:
    """Whether an app has run on a data directory; False for an invalid name."""
    return is_valid_name(app) and journal_dir(data_dir, app).is_dir()


def app_names(data_dir: Path) -> list[str]:
    """Return the names of the apps that have run on a data directory."""
    return sorted(path.parent.name for path in data_dir.glob("apps/*/journal"))
