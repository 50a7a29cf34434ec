"""Bind the state of an app to changelog topics, and restore it from them.

The journal names the changelog topics that contain the state of the app. If a topic is missing there, because the app
has had no changelogs so far, its state was restored from a savepoint or moved to other partitions, or the topic was
deleted, the topic is created and filled from the state on this host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, product
from pathlib import Path

from millstream.batch.app_spec import AppSettings
from millstream.batch.batch import Progress
from millstream.batch.journal import Journal
from millstream.batch.journal_changelog import missing_changelog
from millstream.batch.restoring import Restoring
from millstream.broker import Broker, Output, SupportsChangelogs, TopicInfo, WriterLostError
from millstream.errors import BrokerUnavailableError, DefinitionError, StateError, UnknownTopicError
from millstream.foundation.databases import database_names
from millstream.foundation.names import (
    changelog_topic_name,
    journal_topic_name,
    kafka_streams_changelog_name,
    producer_prefix,
)
from millstream.foundation.paths import state_dir
from millstream.foundation.storage import Environment
from millstream.plan.layout import Layout
from millstream.state.changelog_rows import POSITIONS, changelog_block, is_changelog_key
from millstream.state.checkpoint import Checkpoint
from millstream.state.recording import Changes
from millstream.state.task import COMMIT_ROW, StateVersion, TaskState
from millstream.task.changelog import ChangelogPartition, ChangelogTopic
from millstream.task.task_changelog import TaskChangelogs

_SEED_ROWS = 20_000


def has_changelogs(app: AppSettings, broker: Broker) -> bool:
    """Whether the journal and the state of an app are kept on its broker too."""
    return app.config.changelogs and isinstance(broker, SupportsChangelogs)


def restore_states(
    app: str,
    directory: Path,
    journal: Journal,
    broker: Broker,
    restoring: Restoring | None = None,
    snapshots: str | None = None,
) -> list[str]:
    """Restore the states of tasks that are not on this host, or are older than the journal; return their names.

    ``snapshots`` is the checkpoint of the app, if it has one.
    """
    restoring = restoring or Restoring()
    topics, progress = journal.changelogs(), journal.read()[0]
    checkpoint = None if snapshots is None else Checkpoint(snapshots, app, journal.lineage())
    changelogs = TaskChangelogs(broker, app, topics, snapshots=checkpoint)
    states = {name: TaskState(directory / name, ()) for name in progress.versions if name.rpartition("/")[0] in topics}
    missing = {
        name: state for name, state in states.items() if state.read_version().commit != progress.versions[name].commit
    }
    restoring.start(len(missing))
    for name, state in missing.items():
        stage, _, partition = name.rpartition("/")
        restoring.begin(name)
        restoring.end(changelogs.of_task(stage, int(partition)).restore(state, restoring.update))
    return list(missing)


def bind_changelogs(app: AppSettings, journal: Journal, broker: Broker, layout: Layout) -> dict[str, ChangelogTopic]:
    """Return the changelog topic of each stage; missing ones are created and filled from the state on this host."""
    stored = journal.changelogs()
    progress = journal.read()[0]
    versions = progress.versions
    if progress == Progress() and not stored:
        _check_journal_not_lost(app, broker, layout)
    names = _changelog_names(app, layout)
    topics: dict[str, ChangelogTopic] = {}
    for stage, count in layout.partitions_by_stage.items():
        states = {number: versions[name] for number in range(count) if (name := f"{stage}/{number}") in versions}
        topic = _kept(broker, stored.get(stage), count)
        if topic is None:
            _check_not_foreign(broker, app.id, names[stage])
            topic = _create(app, broker, stage, names[stage], count, states)
        topics[stage] = topic
    if topics.items() - stored.items():
        journal.remember_changelogs({**stored, **topics})
    return topics


def _changelog_names(app: AppSettings, layout: Layout) -> dict[str, str]:
    """Return what the changelog of each stage is called if it is created now."""
    if app.config.changelog_names == "dotted":
        return {stage.name: changelog_topic_name(app.id, stage.name) for stage in layout.plan.stages}
    stores = {stage.name: stage.store_names for stage in layout.plan.stages}
    names = {stage: kafka_streams_changelog_name(app.id, stage, stores[stage]) for stage in stores}
    if len(set(names.values())) < len(names):
        names = {stage: kafka_streams_changelog_name(app.id, stage, ()) for stage in stores}
    for source, name in product(layout.plan.sources, names.values()):
        if source.reads(name):
            raise DefinitionError(
                f"source {source.name!r} would read {name!r}, a changelog of the app itself",
                hint='use another pattern, or Config(changelog_names="dotted")',
            )
    return names


def _kept(broker: Broker, stored: ChangelogTopic | None, count: int) -> ChangelogTopic | None:
    """Return the changelog that the journal names if it still exists, whatever it would be called today."""
    existing = None if stored is None else _topic(broker, stored.name)
    if existing is None or stored != ChangelogTopic(existing.name, existing.id):
        return None
    if existing.partitions < count:
        broker.alter_topic(existing.name, partitions=count)
    return stored


def _check_not_foreign(broker: Broker, app: str, name: str) -> None:
    """Refuse to replace a topic that another program has written, such as a changelog of Kafka Streams."""
    existing = _topic(broker, name)
    for partition, bounds in enumerate(() if existing is None else existing.offsets):
        for chunk in islice(broker.read(name, partition, bounds.begin, bounds.end), 1):
            keys = chunk.block.column(0).to_pylist()
            if not all(key is not None and is_changelog_key(key) for key in keys):
                raise StateError(
                    f"topic {name!r} is the changelog of another program",
                    hint=f"give the app another id than {app!r}, or delete the topic if it is no longer needed",
                    topic=name,
                )


def _create(
    app: AppSettings, broker: Broker, stage: str, name: str, count: int, versions: Mapping[int, StateVersion]
) -> ChangelogTopic:
    """Create a changelog, or one that replaces an older topic of the app, and fill it from the state on this host."""
    assert isinstance(broker, SupportsChangelogs)
    existing = _topic(broker, name)
    is_new = existing is not None and not any(offsets.end for offsets in existing.offsets)
    if existing is None and not app.config.create_topics:
        raise missing_changelog(name, count)
    directory = state_dir(app.data_dir, app.id) / stage
    states = {number: TaskState(directory / str(number), ()) for number in versions}
    for number, version in versions.items():
        _check_complete(name, states[number], version)
    if existing is not None and not (is_new and existing.partitions >= count):
        if not app.config.create_topics:
            raise StateError(
                f"changelog {name!r} has to be filled again, and may not be created",
                hint=f"delete it and create it again, compacted and with {count} partitions, or allow create_topics",
                topic=name,
            )
        broker.delete_topic(name)
        existing = None
    if existing is None:
        broker.create_changelog(name, count)
    topic = ChangelogTopic(name, broker.topic(name).id)
    for number, state in states.items():
        _fill(broker, ChangelogPartition(broker, topic, number), f"{producer_prefix(app.id, stage)}{number}", state)
    return topic


def _check_journal_not_lost(app: AppSettings, broker: Broker, layout: Layout) -> None:
    """Refuse to start from the beginning if the broker has state of the app; after a reset there are positions."""
    for name in _changelog_names(app, layout).values():
        topic = _topic(broker, name)
        if topic is not None and any(offsets.end for offsets in topic.offsets):
            raise StateError(
                f"changelog {topic.name!r} has the state of app {app.id!r}, but the journal of the app is empty",
                hint=f"its topic {journal_topic_name(app.id)!r} was deleted: restore a savepoint, or delete the "
                "changelogs of the app with `millstream topics delete` to start from the beginning",
                topic=topic.name,
            )


def _topic(broker: Broker, name: str) -> TopicInfo | None:
    try:
        return broker.topic(name)
    except UnknownTopicError:
        return None


def _check_complete(changelog: str, state: TaskState, version: StateVersion) -> None:
    stored = state.read_version()
    if version.commit not in (stored.commit, stored.base):
        raise StateError(
            f"changelog {changelog!r} is missing, and {str(state.path)!r} is at batch {stored.batch} instead of "
            f"{version.batch}",
            hint="start the app on the host that has its state, restore a savepoint, or reset the app",
        )


def _fill(broker: SupportsChangelogs, partition: ChangelogPartition, writer_name: str, state: TaskState) -> None:
    """Write a whole state to its empty changelog; its version is in the last transaction."""
    writer = broker.fenced_writer(writer_name)
    writer.open()
    try:
        for changes in _chunks(state.environment):
            writer.commit([Output(partition.topic.name, partition.number, changelog_block(changes))])
            if not writer.is_open:
                writer.open()
    except WriterLostError as error:
        raise BrokerUnavailableError(
            f"changelog {partition.topic.name!r} could not be filled from the state on this host: {error}",
            hint="check that Kafka is running and that the app runs only once; the next start fills it again",
            topic=partition.topic.name,
        ) from error
    finally:
        writer.close()
    partition.finish_copy(state.environment)


def _chunks(environment: Environment) -> Iterator[Changes]:
    names = [name for name in database_names(environment) if name != POSITIONS]
    environment.open_databases(tuple(names))
    last: Changes = {}
    with environment.read() as txn:
        for name in names:
            changes: Changes = {}
            with txn.cursor(db=environment.databases[name]) as cursor:
                for key, value in cursor:
                    (last if (name, key) == COMMIT_ROW else changes)[name, bytes(key)] = bytes(value)
                    if len(changes) >= _SEED_ROWS:
                        yield changes
                        changes = {}
            if changes:
                yield changes
    if last:
        yield last
