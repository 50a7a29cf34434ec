"""How far the deliveries of an app are behind; written by the run of the app, read by other processes."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from millstream.batch.history import FailureReport
from millstream.batch.journal import Journal
from millstream.errors import MillstreamError
from millstream.foundation.paths import app_dir, delivery_dir


class DeliveryLag(msgspec.Struct, frozen=True, kw_only=True):
    """The records that wait to be delivered, at a wall-clock time in milliseconds."""

    at: int
    records: int


class DeliveryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a delivery."""

    name: str
    topic: str
    batch: int
    """The last batch that was delivered."""
    lag: int
    """The records that were waiting when the run last counted them."""
    failure: FailureReport | None
    """Why the last call failed, unless a batch was delivered since."""

    def __str__(self) -> str:
        text = f"{self.name}: {self.lag:,} waiting"
        if self.failure is None:
            return text
        return f"{text}; attempt {self.failure.attempts} failed: {self.failure.message}"


def write_lag(data_dir: Path, app: str, topic: str, lag: DeliveryLag) -> None:
    """Replace the stored lag of a delivery; an error such as a full disk is ignored, since it must not end the run."""
    path = _lag_file(data_dir, app, topic)
    new = path.with_suffix(".new")
    with contextlib.suppress(OSError):
        new.write_bytes(msgspec.json.encode(lag))
        new.replace(path)


def delivery_statuses(data_dir: Path, app: str) -> list[DeliveryStatus]:
    """Return the status of each delivery that an app has started."""
    directory = app_dir(data_dir, app) / "deliveries"
    topics = sorted(path.name for path in directory.iterdir() if path.is_dir()) if directory.is_dir() else []
    return [status for topic in topics if (status := _status(data_dir, app, topic)) is not None]


def _status(data_dir: Path, app: str, topic: str) -> DeliveryStatus | None:
    try:
        journal = Journal(delivery_dir(data_dir, app, topic), readonly=True)
        progress, _ = journal.read()
        lag = msgspec.json.decode(_lag_file(data_dir, app, topic).read_bytes(), type=DeliveryLag).records
        failure = journal.history.failure()
    except (MillstreamError, OSError, msgspec.DecodeError):
        return None  # it is starting
    name = topic.removeprefix(f"{app}.to-spark.")
    return DeliveryStatus(name=name, topic=topic, batch=progress.done, lag=lag, failure=failure)


def _lag_file(data_dir: Path, app: str, topic: str) -> Path:
    path = delivery_dir(data_dir, app, topic)
    return path.with_name(f"{path.name}.lag.json")
