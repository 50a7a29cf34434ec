"""Hosts that run the same app on one cluster or log, each with its own disk and its own connections, without Spark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from tests.assembling import local_loop

from millstream import App, Config
from millstream.admin.changelogs import bind_changelogs, has_changelogs, restore_states
from millstream.admin.checkpoints import fill_checkpoint, restore_from_checkpoint
from millstream.admin.inputs import bind_inputs
from millstream.admin.journals import open_journal
from millstream.admin.upgrade import upgrade
from millstream.batch.app_spec import AppSpec
from millstream.batch.assembly import Assembly, TaskSettings
from millstream.batch.execute import run_batch
from millstream.batch.journal import Journal
from millstream.batch.journal_changelog import JournalChangelog
from millstream.batch.shared_journal import Owner
from millstream.batch.topics import lay_out, read_topics
from millstream.batch.write_behind import DeferredJournal, WriteBehind
from millstream.broker_urls import open_broker
from millstream.foundation.paths import journal_dir, state_dir
from millstream.foundation.storage import close_environments
from millstream.tables.opening import catalog_of
from millstream.task.environment import TaskEnvironment


class Host:
    """One disk and one connection; ``behind`` writes state as a resident task does."""

    def __init__(self, app: App, url: str, disk: Path, *, behind: bool = False, **config: Any) -> None:
        self.broker: Any = open_broker(url, disk)
        self.disk = disk
        self.behind = behind
        self.app = app
        self.config: Config = msgspec.structs.replace(app.config, **config)

    @property
    def spec(self) -> AppSpec:
        return AppSpec(
            id=self.app.id,
            config=self.config,
            data_dir=self.disk,
            broker_url=self.broker.url,
            plan=self.app.plan,
            deliveries={},
        )

    def start(self) -> Run:
        """Take the app over, as ``millstream run`` does."""
        return Run(self)

    def run(self) -> None:
        """Process all records."""
        with self.running() as run:
            run.catch_up()

    @contextmanager
    def running(self) -> Iterator[Run]:
        run = self.start()
        try:
            yield run
        finally:
            run.stop()

    def lose_disk(self) -> None:
        close_environments(self.disk)
        shutil.rmtree(self.disk)

    def close(self) -> None:
        close_environments(self.disk)
        self.broker.close()


class Run:
    """A run of an app on a host."""

    def __init__(self, host: Host) -> None:
        spec, broker = host.spec, host.broker
        self.host = host
        self.journal = open_journal(spec, broker, Owner.new())
        layout = lay_out(spec, broker, self.journal.catalog().get("partitions", {}))
        bind_inputs(spec.id, self.journal, broker, read_topics(spec, broker))
        has = has_changelogs(spec, broker)
        directory = state_dir(spec.data_dir, spec.id)
        checkpoint = spec.config.checkpoint
        self.restored: list[str] = []
        if has:
            self.restored = restore_states(spec.id, directory, self.journal, broker, None, checkpoint)
        elif checkpoint is not None:
            self.restored = restore_from_checkpoint(spec.id, directory, self.journal, checkpoint)
        upgrade(self.journal, directory, catalog_of(layout))
        topics = bind_changelogs(spec, self.journal, broker, layout) if has else None
        if topics is None and checkpoint is not None:
            fill_checkpoint(spec.id, directory, self.journal, checkpoint)
        settings = TaskSettings.of(spec, self.journal.lineage(), topics)
        if self.journal.changelog is not None:
            settings = msgspec.structs.replace(settings, generation=self.journal.changelog.owner.generation(1))
        self.assembly = Assembly(settings, layout, broker)
        self.env: TaskEnvironment = self.assembly.environment()

    def catch_up(self, batch_records: int = 1000) -> None:
        """Process all records that are there."""
        if not self.host.behind:
            local_loop(self.assembly, self.journal, partial(run_batch, self.env), batch_records=batch_records).run(
                "caught-up"
            )
            return
        behind = self.write_behind()
        try:
            local_loop(self.assembly, behind.journal, behind, batch_records=batch_records).run("caught-up")
        finally:
            behind.close()
            behind.journal.leave()

    def write_behind(self) -> WriteBehind:
        path = journal_dir(self.host.disk, self.host.app.id)
        changelog = None
        before = self.journal.changelog
        if isinstance(before, JournalChangelog):
            self.journal.leave()
            changelog = JournalChangelog(self.host.broker, self.host.app.id, before.topic, before.owner)
        journal = DeferredJournal(path, changelog=changelog)
        journal.join()
        return WriteBehind(self.env, journal)

    def stop(self) -> None:
        self.journal.leave()
        close_environments(self.host.disk)

    def journal_on_disk(self) -> Journal:
        return Journal(journal_dir(self.host.disk, self.host.app.id), readonly=True)
