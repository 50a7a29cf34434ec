"""Evaluates alert rules every few seconds: one process of a data directory does, a dashboard or a run of an app."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import msgspec

from millstream.batch.app_spec import AppSettings
from millstream.batch.connector_status import ConnectorStatus, connector_statuses
from millstream.config import Config
from millstream.connect.connector import Connector
from millstream.connect.source_journal import SourceJournal
from millstream.connect.sources import SourceWork
from millstream.errors import MillstreamError, StorageError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import source_dir
from millstream.foundation.text import printable
from millstream.operations.conditions import rule_value
from millstream.operations.data_directory import DataDirectory
from millstream.operations.rule_source import RuleSource, RuleState, decoded_state
from millstream.operations.rules import Rule, RuleStore
from millstream.operations.targets import target_connector, target_name

_log = logging.getLogger(__name__)
_INTERVAL_SECONDS = 2.0
OWNER = "millstream-alerts"
"""The owner of the connectors, where an app would be."""
_SOURCE = "rules"


class AlertStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A rule, its current value, whether its alert is firing, and what is known of its delivery."""

    rule: Rule
    is_firing: bool
    number: float | None
    message: str
    delivery: str


class AlertWatch:
    """Evaluates the rules of a data directory in its own thread, unless another process already does."""

    def __init__(self, directory: DataDirectory, interval: float = _INTERVAL_SECONDS) -> None:
        self.store = RuleStore(directory.path)
        self._directory = directory
        self._interval = interval
        self._lock = FileLock(self.store.directory / "lock")
        self._has_lock = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="millstream-alerts", daemon=True)
        self._work: SourceWork | None = None
        self._targets: dict[str, tuple[Connector, threading.Thread]] = {}

    def start(self) -> None:
        """Start the thread that evaluates rules; each target has a further one, so that none delays another."""
        self._thread.start()

    def stop(self) -> None:
        """Stop all threads and release the lock, so that another process can take over."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
        for connector, _ in self._targets.values():
            connector.stop()
        for connector, thread in self._targets.values():
            thread.join(timeout=10)
            connector.write_status()
        self._targets.clear()
        self._close_work()
        self._lock.release()

    def statuses(self) -> list[AlertStatus]:
        """Return the status of all rules, whichever process evaluates them."""
        rules = self.store.rules()
        firing = stored_state(self._directory.path).firing if rules else {}
        deliveries = {status.name: status for status in connector_statuses(self._directory.path, OWNER)}
        return [self._status(rule, rule.name in firing, deliveries) for rule in rules]

    def check_rules(self) -> int:
        """Evaluate all rules once, and return how many steps found changes."""
        if not self.store.exists or not self._try_lock():
            return 0
        try:
            return self._evaluate()
        except StorageError:  # another user of this process has closed the journal, for example at the end of a run
            self._close_work()
            return self._evaluate()
        except BaseException:
            self._close_work()
            raise
        finally:
            self._run_targets()

    def _evaluate(self) -> int:
        if self._work is None:
            self._work = self._open_work()
        self._work.create_topics(RuleSource(self._directory).topics())
        steps = 0
        while self._work.step(0.0):
            steps += 1
        return steps

    def _open_work(self) -> SourceWork:
        settings, source = self._settings(), RuleSource(self._directory)
        connector = Connector(settings, _SOURCE, "source", "RuleSource", source.guarantee)
        work = SourceWork(settings, self._directory.broker, source, connector)
        work.open()
        return work

    def _close_work(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            work.close()

    def _settings(self) -> AppSettings:
        config = Config(on_error="skip")
        return AppSettings(
            id=OWNER, config=config, data_dir=self._directory.path, broker_url=self._directory.broker_url
        )

    def _run_targets(self) -> None:
        """Send to the targets of all rules, each in a thread that tries forever; stop those without a rule."""
        wanted = {rule.to for rule in self.store.rules() if rule.to is not None}
        for to in self._targets.keys() - wanted:
            connector, thread = self._targets.pop(to)
            connector.stop()
            thread.join(timeout=10)
        for to in wanted - self._targets.keys():
            connector = target_connector(self._settings(), self._directory.broker, to)
            thread = threading.Thread(
                target=connector.run,
                args=("stopped",),
                kwargs={"survives": True},
                name="millstream-target",
                daemon=True,
            )
            self._targets[to] = connector, thread
            thread.start()
        for connector, _ in self._targets.values():
            connector.write_status()

    def _status(self, rule: Rule, is_firing: bool, deliveries: dict[str, ConnectorStatus]) -> AlertStatus:
        value, message = rule_value(self._directory, rule)
        return AlertStatus(
            rule=rule, is_firing=is_firing, number=value, message=message, delivery=_delivery(rule.to, deliveries)
        )

    def _try_lock(self) -> bool:
        if not self._has_lock:
            self._has_lock = self._lock.acquire()
        return self._has_lock

    def _repeat(self) -> None:
        while not self._stopping.wait(self._interval):
            try:
                self.check_rules()
            except MillstreamError as error:
                _log.warning("cannot check alerts: %s", printable(str(error)))
            except Exception as error:  # one failed check must not end the thread
                _log.error("cannot check alerts: %s", printable(repr(error)))


def stored_state(data_dir: Path) -> RuleState:
    """Return the alerts of rules that are firing, as the process that evaluates them has stored it."""
    path = source_dir(data_dir, OWNER, _SOURCE)
    if not (path / "data.mdb").exists():
        return RuleState()
    return decoded_state(SourceJournal(path, readonly=True).read().position)


def _delivery(to: str | None, deliveries: dict[str, ConnectorStatus]) -> str:
    if to is None:
        return "shown in the dashboard only"
    status = deliveries.get(target_name(to))
    if status is None:
        return "nothing sent yet"
    return str(status).partition(": ")[2]
