"""Tables of an app that runs on other hosts: a copy of its changelogs on this host, which a thread keeps up to date.

The first read waits until the copy contains everything that was committed before it. From then on a read costs what it
costs on the host of the app, and sees what was committed up to a fraction of a second before it; ``copied_at`` is the
time. Processes of one host share a copy: one of them keeps it up to date. A copy that is not read is no longer kept up
to date, until it is read again.
"""

from __future__ import annotations

import atexit
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import msgspec

from millstream.batch.journal import Journal
from millstream.batch.journal_changelog import JournalChangelog, find_journal_topic
from millstream.batch.shared_journal import Owner
from millstream.broker import Broker, SupportsChangelogs
from millstream.errors import MillstreamError, StateError
from millstream.foundation.content import TASK_STATE
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import copies_dir, has_run, journal_dir, lock_file, state_dir
from millstream.foundation.storage import open_environment
from millstream.foundation.typed_decoding import decode_json
from millstream.tables.rows import TableEntry
from millstream.task.changelog import ChangelogPartition, ChangelogTopic

REFRESH_SECONDS = 0.25
"""The pause between two looks at the changelogs."""
_UNUSED_SECONDS = 60.0
_FIRST_COPY_SECONDS = 600.0
_OWN_STATE_SECONDS = 1.0
_POLL_SECONDS = 0.05


class TableCatalog(msgspec.Struct):
    """The tables in the catalog of a journal."""

    tables: list[TableEntry] = []


class TableCopies:
    """The copies of the tables of one app, as this process reads them and perhaps keeps them up to date."""

    def __init__(self, data_dir: Path, app: str, broker: Broker, journal_topic: ChangelogTopic) -> None:
        directory = copies_dir(data_dir, app)
        self.state_dir = directory / "state"
        self.app = app
        self.broker = broker
        self.journal_topic = journal_topic
        self._journal_path = directory / "journal"
        self._owner = Owner.new()
        self._copied_at_file = directory / "copied-at"
        self._lock = FileLock(directory / "lock")
        self._starting = threading.Lock()
        self._first: Future[None] | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._used_at = time.monotonic()

    @property
    def _journal(self) -> Journal:
        """The copy of the journal, opened again if the environments of the data directory were closed meanwhile."""
        return Journal(
            self._journal_path, changelog=JournalChangelog(self.broker, self.app, self.journal_topic, self._owner)
        )

    @property
    def copied_at(self) -> int | None:
        """A wall-clock time in milliseconds: everything that was committed before it is in the copy."""
        try:
            return int(self._copied_at_file.read_text())
        except (FileNotFoundError, ValueError):
            return None

    @property
    def keeps_up_to_date(self) -> bool:
        """Whether this process keeps the copy up to date, and not another one."""
        return self._thread is not None and self._thread.is_alive()

    def catalog(self) -> bytes:
        """Return the catalog of the app."""
        self.prepare()
        return self._journal.encoded_catalog()

    def changelogs(self) -> dict[str, ChangelogTopic]:
        """Return the changelogs of the app by stage."""
        return self._journal.changelogs()

    def prepare(self) -> None:
        """Wait until the copy can be read; make sure that this process or another one keeps it up to date."""
        self._used_at = time.monotonic()
        first = self._first
        if self.keeps_up_to_date and first is not None and first.done():
            return
        with self._starting:
            if not self.keeps_up_to_date:
                self._first = self._follow() if self._lock.acquire() else None
        if self._first is not None:
            self._first.result(_FIRST_COPY_SECONDS)
        else:
            self._wait_for_other_process()

    def _follow(self) -> Future[None]:
        first: Future[None] = Future()
        self._stopping.clear()
        self._thread = threading.Thread(
            target=self._keep_up_to_date, args=(first,), name=f"millstream-tables-{self.app}", daemon=True
        )
        self._thread.start()
        return first

    def _wait_for_other_process(self) -> None:
        deadline = time.monotonic() + _FIRST_COPY_SECONDS
        while self.copied_at is None:
            if time.monotonic() > deadline:
                raise StateError(
                    f"another process copies the tables of {self.app!r} for more than {_FIRST_COPY_SECONDS:.0f} s",
                    hint=f"it is process {self._lock.holder()}; end it, or wait",
                )
            time.sleep(_POLL_SECONDS)

    def _keep_up_to_date(self, first: Future[None]) -> None:
        try:
            while not self._stopping.is_set() and time.monotonic() - self._used_at < _UNUSED_SECONDS:
                try:
                    self.refresh()
                except MillstreamError as error:
                    if not first.done():
                        first.set_exception(error)
                        return
                    # an outage: rows are served as of the last time that succeeded, and ``copied_at`` says so
                if not first.done():
                    first.set_result(None)
                self._stopping.wait(REFRESH_SECONDS)
        except BaseException as error:
            if not first.done():
                first.set_exception(error)
            raise
        finally:
            self._lock.release()

    def refresh(self) -> None:
        """Bring the copy up to date with everything that is committed now."""
        now = time.time_ns() // 1_000_000
        journal = self._journal
        journal.follow()
        topics = journal.changelogs()
        entries = decode_json(journal.encoded_catalog(), TableCatalog).tables
        for stage, partitions in {entry.stage: entry.partitions for entry in entries}.items():
            if stage in topics:
                for number in range(partitions):
                    self._copy(ChangelogPartition(self.broker, topics[stage], number), self.state_dir / stage)
        written = self._copied_at_file.with_suffix(".new")
        written.write_text(str(now))
        written.rename(self._copied_at_file)

    def _copy(self, partition: ChangelogPartition, directory: Path) -> None:
        environment = open_environment(directory / str(partition.number), content=TASK_STATE)
        if not partition.is_usable(environment):
            self._copied_at_file.unlink(missing_ok=True)
            partition.restart_copy(environment)
        partition.catch_up(environment)

    def is_at(self, journal: Journal) -> bool:
        """Whether a journal on this host has the same commits as the topic of the journal; commits have random ids."""
        copy = self._journal
        copy.follow()
        return journal.read()[0] == copy.read()[0]

    def close(self) -> None:
        """Stop keeping the copy up to date."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()


_copies: dict[tuple[Path, str, str], TableCopies] = {}
_own_state: dict[tuple[Path, str], tuple[bool, float]] = {}
_opening = threading.Lock()


def copies_of(data_dir: Path, app: str, broker: Broker) -> TableCopies | None:
    """Return copies of the tables of an app; None if they are not needed, or if it has no changelogs."""
    if not isinstance(broker, SupportsChangelogs) or _runs_here(data_dir, app):
        return None
    key = data_dir, app, broker.url
    with _opening:
        checked = _own_state.get(key[:2])
        if checked is not None and time.monotonic() - checked[1] < _OWN_STATE_SECONDS:
            return None if checked[0] else _copies.get(key)
        topic = find_journal_topic(broker, app)
        if topic is None:
            return None
        copies = _copies.get(key)
        if copies is None:
            copies = _copies[key] = TableCopies(data_dir, app, broker, topic)
        is_own = _has_current_state(data_dir, app, copies)
        _own_state[key[:2]] = is_own, time.monotonic()
        return None if is_own else copies


def _runs_here(data_dir: Path, app: str) -> bool:
    """Whether the app runs or stands by on this host, with its state; on a cluster, executors have the state."""
    is_locked = FileLock(lock_file(data_dir, app)).is_held()
    return is_locked and any(state_dir(data_dir, app).glob("*/*/data.mdb"))


def _has_current_state(data_dir: Path, app: str, copies: TableCopies) -> bool:
    """Whether a stopped app ran here last."""
    if not has_run(data_dir, app) or not any(state_dir(data_dir, app).glob("*/*/data.mdb")):
        return False
    return copies.is_at(Journal(journal_dir(data_dir, app), readonly=True))


@atexit.register
def _close_all() -> None:
    for copies in _copies.values():
        copies.close()
