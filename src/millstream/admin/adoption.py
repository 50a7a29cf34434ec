"""Take over a stopped Kafka Streams application: an app continues at its offsets, with the rows of its stores.

Nothing of the application is changed, so it can be started again. Journal and state are built next to the app and
become its own by a rename; until then the app does not exist.
"""

from __future__ import annotations

import shutil
import uuid
from collections import defaultdict
from collections.abc import Collection
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from millstream.admin.adopted_stores import AdoptedRow, AdoptedStore, Formats, adoptable_stores
from millstream.admin.journals import fetch_journal, replace_journal
from millstream.admin.kafka_streams import (
    changelog_name,
    changelogs_of,
    repartition_topics,
    updates,
    waiting_records,
)
from millstream.admin.savepoints import install_app
from millstream.batch.app_spec import AppSpec
from millstream.batch.batch import Progress
from millstream.batch.journal import Inputs, Journal
from millstream.batch.topics import read_topics
from millstream.broker import Broker, Offsets
from millstream.errors import AlreadyRunningError, BrokerError, DefinitionError, StateError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.names import check_app_on_kafka
from millstream.foundation.paths import has_run, journal_dir, lock_file
from millstream.foundation.storage import close_environments, make_private_directory
from millstream.foundation.text import format_count
from millstream.plan.layout import Layout
from millstream.state.segments import ENTRIES
from millstream.state.task import StateVersion, TaskState

_CHUNK = 20_000


class StoreOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """A store of the app and the topic that its rows are read from."""

    store: str
    topic: str
    kind: str
    offsets: list[Offsets]
    """What is read of each partition of the topic."""

    @property
    def records(self) -> int:
        """The most records that can be there."""
        return sum(bounds.end - bounds.begin for bounds in self.offsets)


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """What an app takes over from a Kafka Streams application."""

    app: str
    application: str
    positions: dict[str, int]
    """The first offset to read of each partition, by ``topic/partition``."""
    unread: list[str]
    """Partitions in which the application has committed nothing; they are read from the beginning."""
    expired: dict[str, int]
    """By partition, how many records after the committed offset were deleted by retention."""
    stores: list[StoreOrigin]
    empty: list[str]
    """Stores that start empty, because the user says so."""
    unused: list[str]
    """Stores of the application that no store of the app is filled from."""


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """What the user says about the stores of the app."""

    application: str
    stores: dict[str, str] = {}
    """By store of the app, the store of the application."""
    empty: tuple[str, ...] = ()
    formats: Formats = Formats({}, {})


class _StoreSource(NamedTuple):
    store: AdoptedStore
    origin: StoreOrigin


def planned_adoption(broker: Broker, app: AppSpec, choices: Choices) -> Adoption:
    """Return what would be taken over; nothing is changed."""
    return _Adopting(broker, app, choices).plan


def execute_adoption(broker: Broker, app: AppSpec, choices: Choices) -> tuple[Adoption, dict[str, int]]:
    """Take an application over, and return what was planned and the number of rows of each store."""
    adopting = _Adopting(broker, app, choices)
    lock = FileLock(lock_file(app.data_dir, app.id))
    if not lock.acquire(timeout=0.1):
        raise AlreadyRunningError(
            f"app {app.id!r} is running (process {lock.holder()})", hint="stop it first", process=lock.holder()
        )
    draft = app.data_dir / "restoring" / "drafts" / f"{app.id}-{uuid.uuid4().hex[:8]}"
    try:
        make_private_directory(draft)
        rows = adopting.build(draft)
        install_app(app.data_dir, app.id, draft)
        replace_journal(broker, app.data_dir, app.id)
    finally:
        lock.release()
        close_environments(draft)
        shutil.rmtree(draft, ignore_errors=True)
    return adopting.plan, rows


class _Adopting:
    """One adoption; the constructor refuses what cannot be taken over."""

    def __init__(self, broker: Broker, app: AppSpec, choices: Choices) -> None:
        self._broker = broker
        self._app = app
        self._choices = choices
        application = choices.application
        check_app_on_kafka(app.id)
        _check_new(broker, app)
        _check_stopped(broker, application)
        topics = {topic: broker.topic(topic).partitions for topic in read_topics(app, broker)}
        self._layout = Layout.of(app.plan, topics, otherwise=app.config.partitions)
        self._committed = broker.committed(application)
        self._check_drained()
        self._positions = self._read_positions()
        self._sources = self._choose_sources()
        used = {source.origin.topic for source in self._sources}
        stores = changelogs_of(broker, application)
        self.plan = Adoption(
            app=app.id,
            application=application,
            positions=self._positions,
            unread=sorted(name for name in self._bounds if name not in self._positions),
            expired=self._expired(),
            stores=[source.origin for source in self._sources],
            empty=sorted(choices.empty),
            unused=[store for store in stores if changelog_name(application, store) not in used],
        )

    # Checks and choices

    def _check_drained(self) -> None:
        for topic in repartition_topics(self._broker, self._choices.application):
            committed = {part.partition: offset for part, offset in self._committed.items() if part.topic == topic}
            waiting = waiting_records(self._broker, topic, committed)
            if waiting:
                raise StateError(
                    f"{format_count(waiting, 'record')} of repartition topic {topic!r} were not processed",
                    hint="stop what writes to the input topics, start the Kafka Streams application until it has no "
                    "lag, and stop it again",
                    topic=topic,
                )

    def _read_positions(self) -> dict[str, int]:
        topics = read_topics(self._app, self._broker)
        self._bounds = {
            f"{topic}/{number}": bounds for topic in topics for number, bounds in enumerate(self._broker.offsets(topic))
        }
        committed = {f"{part.topic}/{part.partition}": offset for part, offset in self._committed.items()}
        positions = {name: committed[name] for name in self._bounds if name in committed}
        if not positions:
            raise StateError(
                f"group {self._choices.application!r} has no committed offsets in {', '.join(sorted(topics))}",
                hint="is it the application.id of the Kafka Streams application, and does the app read its topics?",
            )
        return {name: max(offset, self._bounds[name].begin) for name, offset in positions.items()}

    def _expired(self) -> dict[str, int]:
        committed = {f"{part.topic}/{part.partition}": offset for part, offset in self._committed.items()}
        missing = {name: offset - committed[name] for name, offset in self._positions.items()}
        return {name: records for name, records in missing.items() if records > 0}

    def _choose_sources(self) -> list[_StoreSource]:
        plan, choices, empty = self._layout.plan, self._choices, set(self._choices.empty)
        sources: list[_StoreSource] = []
        problems: dict[str, str] = {}
        names: set[str] = set()
        for stage in plan.stages:
            if stage.round:
                continue
            stores, reasons = adoptable_stores(plan, stage, choices.formats)
            names |= {store.name for store in stores} | reasons.keys()
            problems |= reasons
            for store in stores:
                origin = None if store.name in empty else self._origin(store)
                if isinstance(origin, StoreOrigin):
                    sources.append(_StoreSource(store, origin))
                elif origin is not None:
                    problems[store.name] = origin
        _check_known([*choices.stores, *choices.empty, *choices.formats.keys, *choices.formats.values], names)
        problems = {name: reason for name, reason in problems.items() if name not in empty}
        if problems:
            reasons_text = "; ".join(f"{name!r}: {reason}" for name, reason in sorted(problems.items()))
            options = " ".join(f"--empty {name}" for name in sorted(problems))
            raise StateError(
                f"the state of {choices.application!r} cannot be taken over completely: {reasons_text}",
                hint=f"name the store with --store TABLE=STORE, let it start empty with {options}, or compute the "
                "app from the beginning of its topics (millstream run)",
            )
        return sources

    def _origin(self, store: AdoptedStore) -> StoreOrigin | str:
        """Return where the rows of a store are read from, or why they cannot be read."""
        name = self._choices.stores.get(store.name, store.name)
        topic = changelog_name(self._choices.application, name)
        exists = topic in self._broker.topic_names()
        if not exists and store.source is not None and store.name not in self._choices.stores:
            return self._source_topic(store)
        if not exists:
            return f"there is no changelog {topic!r}"
        offsets = self._broker.offsets(topic)
        tasks = self._layout.partitions_by_stage[store.stage.name]
        if not store.by_key and len(offsets) != tasks:
            return f"changelog {topic!r} has {len(offsets)} partitions, but the app has {tasks} tasks"
        return StoreOrigin(store=store.name, topic=topic, kind=store.kind, offsets=offsets)

    def _source_topic(self, store: AdoptedStore) -> StoreOrigin | str:
        """Read a table from its topic up to the committed offset, as Kafka Streams does with an optimized topology."""
        assert store.source is not None
        if store.source.timestamp is not None or len(store.source.topics) != 1:
            return "there is no changelog, and its timestamps are not those of one topic"
        [topic] = store.source.topics
        offsets = [
            Offsets(bounds.begin, self._positions.get(f"{topic}/{number}", bounds.begin))
            for number, bounds in enumerate(self._broker.offsets(topic))
        ]
        return StoreOrigin(store=store.name, topic=topic, kind=store.kind, offsets=offsets)

    # Building

    def build(self, draft: Path) -> dict[str, int]:
        """Build journal and state in an empty directory; return the number of rows of each store."""
        versions: dict[str, StateVersion] = {}
        by_stage: dict[str, list[_StoreSource]] = defaultdict(list)
        for source in self._sources:
            by_stage[source.store.stage.name].append(source)
        counts: dict[str, int] = {}
        for stage, sources in by_stage.items():
            tasks = self._layout.partitions_by_stage[stage]
            names = sources[0].store.stage.store_names
            states = [TaskState(draft / "state" / stage / str(number), names) for number in range(tasks)]
            times = [-1] * tasks
            for source in sources:
                _fill(self._broker, source, states, times)
            for number, state in enumerate(states):
                version = StateVersion(0, uuid.uuid4().hex, times[number])
                state.start_at(version)
                versions[f"{stage}/{number}"] = version
            for source in sources:
                counts[source.store.name] = sum(_rows_in(source.store, state) for state in states)
        journal = Journal(draft / "journal")
        journal.remember_inputs(self._inputs())
        journal.write(Progress(positions=self._positions, versions=versions), None)
        close_environments(draft)
        return counts

    def _inputs(self) -> Inputs:
        topics = {topic: self._broker.topic(topic).id for topic in read_topics(self._app, self._broker)}
        return Inputs(cluster=self._broker.cluster_id(), url=self._broker.url, topics=topics)


def _fill(broker: Broker, source: _StoreSource, states: list[TaskState], times: list[int]) -> None:
    """Write the rows of a store to its tasks; ``times`` gets the latest timestamp of each task."""
    store, origin = source.store, source.origin
    for partition, bounds in enumerate(origin.offsets):
        rows = map(store.decode, chain.from_iterable(updates(broker, origin.topic, partition, bounds)))
        while chunk := list(islice(rows, _CHUNK)):
            by_task: dict[int, list[AdoptedRow]] = defaultdict(list)
            for row in chunk:
                by_task[store.partition_of(row, partition, len(states))].append(row)
            for task, part in by_task.items():
                store.write(states[task], part)
                times[task] = max(times[task], *(row.timestamp for row in part))


def _rows_in(store: AdoptedStore, state: TaskState) -> int:
    """Return the number of rows of a store, without the numbers that belong to all of them."""
    return sum(store.layout is None or physical[:1] == ENTRIES for physical, _ in state.scan(store.name))


def _check_new(broker: Broker, app: AppSpec) -> None:
    fetch_journal(broker, app.data_dir, app.id)
    if has_run(app.data_dir, app.id):
        progress, planned = Journal(journal_dir(app.data_dir, app.id), readonly=True).read()
        if progress.done or progress.versions or planned is not None:
            raise StateError(
                f"app {app.id!r} has state of its own already",
                hint=f"use another app id, or delete its state first: millstream reset {app.id} --execute",
            )


def _check_stopped(broker: Broker, application: str) -> None:
    try:
        members = broker.group(application).members
    except BrokerError as error:
        if application in broker.group_names():
            raise
        raise StateError(
            f"there is no group {application!r}",
            hint="give the application.id of the Kafka Streams application; see: millstream groups list",
        ) from error
    if members:
        raise StateError(
            f"Kafka Streams application {application!r} is running ({format_count(len(members), 'member')})",
            hint="stop all its instances; a member that was killed is removed after its session timeout",
        )


def _check_known(given: Collection[str], names: Collection[str]) -> None:
    for name in given:
        if name not in names:
            raise DefinitionError(
                f"the app has no store {name!r}", hint=f"its stores: {', '.join(sorted(names)) or 'none'}"
            )
