"""Run the sources and sinks of a connect file in this process, without an app, Spark or a JVM."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from millstream.batch.app_spec import AppSettings
from millstream.batch.loop import Until
from millstream.batch.topics import create_missing_topics
from millstream.broker_urls import open_broker
from millstream.connect.connect_file import ConnectFile
from millstream.connect.protocols import SupportsCheck
from millstream.connect.running import Connectors
from millstream.errors import AlreadyRunningError, ConnectorError, MillstreamError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import lock_file
from millstream.foundation.storage import make_private_directory, translate_storage_errors

_LOOK_SECONDS = 0.25


def run_connect_file(
    file: ConnectFile,
    settings: AppSettings,
    until: Until,
    stopping: threading.Event,
    on_start: Callable[[], None] = lambda: None,
) -> None:
    """Run until ``stopping`` is set, or until everything is read and written; a failed connector stops no other."""
    with translate_storage_errors(settings.data_dir):
        make_private_directory(settings.data_dir)
    lock = locked(settings)
    broker = None
    try:
        broker = open_broker(settings.broker_url, settings.data_dir, durability=settings.config.durability)
        if settings.config.create_topics:  # a sink of the file may read them before its source is open
            for source in file.sources.values():
                create_missing_topics(broker, source.topics)
        connectors = Connectors(settings, file.connectors(settings, broker))
        with _stopped_by(stopping, connectors), connectors.beside(until, stopping.set, survive=True):
            on_start()
            if until == "stopped":
                stopping.wait()
    finally:
        if broker is not None:
            broker.close()
        lock.release()


@contextmanager
def _stopped_by(stopping: threading.Event, connectors: Connectors) -> Iterator[None]:
    """Stop connectors when ``stopping`` is set, also while they only catch up, which occupies this thread."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(_LOOK_SECONDS):
            if stopping.is_set():
                return connectors.stop()
        return None

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def locked(settings: AppSettings) -> FileLock:
    """Return the lock of the connectors, held; raise if another process has it."""
    path: Path = lock_file(settings.data_dir, settings.id)
    with translate_storage_errors(settings.data_dir):
        make_private_directory(path.parent)
    lock = FileLock(path)
    if not lock.acquire(timeout=0.1):
        raise AlreadyRunningError(
            f"{settings.id!r} is already running on {str(settings.data_dir)!r} (process {lock.holder()})",
            hint="stop that process first, or give the file another name",
            process=lock.holder(),
        )
    return lock


def check_connectors(file: ConnectFile) -> dict[str, list[str] | None]:
    """Connect to all systems, change nothing, and return what is missing, by connector; None if it cannot check."""
    problems: dict[str, list[str] | None] = {}
    connectors: dict[str, object] = {name: item.source for name, item in file.sources.items()}
    connectors |= {name: item.sink for name, item in file.sinks.items()}
    for name, connector in connectors.items():
        missing: list[str] | None
        try:
            missing = list(connector.check()) if isinstance(connector, SupportsCheck) else None
        except MillstreamError as error:
            missing = [str(error)]
        except Exception as error:
            missing = [str(ConnectorError(f"{type(error).__name__}: {error}", hint="check the settings"))]
        problems[name] = missing
    return problems
