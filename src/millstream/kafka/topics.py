"""Topics of a cluster, in the words of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from time import monotonic, sleep
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from millstream.broker import TopicConfig, apply_config_changes, check_config
from millstream.errors import UnknownTopicError
from millstream.foundation.names import check_name
from millstream.kafka.clients import REQUEST_SECONDS, Clients

# What a batch of one record costs besides the record: Kafka's limit is on batches, ours on records.
_BATCH_OVERHEAD = 256
_LARGEST_BATCH = 1_000_000
_REMEMBERED_SECONDS = 60.0
_WITHOUT_LIMIT = -1
_PAUSE_SECONDS = 0.02
_ANY_TIME = 2**63 - 1
_INTERNAL = "__"


class Topics:
    """What can be done with topics."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._limits: dict[str, tuple[int, float]] = {}

    def batch_bytes(self, names: Iterable[str]) -> int:
        """Return how large a batch of records may be to go to any of these topics; what a topic says is remembered.

        Kafka's limit is on batches, but the client knows of none that differs from topic to topic.
        """
        return min(_LARGEST_BATCH, *(self._limit(name) for name in names))

    def _limit(self, name: str) -> int:
        limit, looked = self._limits.get(name, (0, float("-inf")))
        if monotonic() - looked > _REMEMBERED_SECONDS:
            limit = self.config(name).max_record_bytes
            self._limits[name] = limit, monotonic()
        return limit

    def names(self) -> list[str]:
        """Return the names of all topics but Kafka's own."""
        found = self._clients.metadata("list topics").topics
        return sorted(name for name in found if not name.startswith(_INTERNAL))

    def partitions(self, name: str) -> int:
        """Return how many partitions a topic has."""
        check_name("topic", name)
        try:
            return len(self._ask("describe_topics", name, TopicCollection([name]), doing="describe").partitions)
        except UnknownTopicError as error:
            raise self._unknown(name) from error

    def config(self, name: str) -> TopicConfig:
        """Return the settings of a topic."""
        partitions = self.partitions(name)
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = self._ask("describe_configs", resource, [resource], doing="read the settings of")
        return _ours({key: entry.value for key, entry in entries.items()}, partitions)

    def create(self, name: str, config: TopicConfig) -> None:
        """Make a topic with the cluster's default of copies, and wait until it can be used."""
        check_name("topic", name)
        check_config(config)
        topic = NewTopic(name, num_partitions=config.partitions, replication_factor=-1, config=_theirs(config))
        self._ask("create_topics", name, [topic], doing="create")
        self._await(lambda: self.partitions(name) >= config.partitions)

    def alter(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change settings of a topic; partitions can only grow."""
        before = self.config(name)
        after = apply_config_changes(name, before, changes)
        settings, old = _theirs(after), _theirs(before)
        changed = {key: value for key, value in settings.items() if value != old[key]}
        if changed:
            entries = [
                ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in changed.items()
            ]
            resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
            self._ask("incremental_alter_configs", resource, [resource], doing="change")
        if after.partitions > before.partitions:
            self._ask("create_partitions", name, [NewPartitions(name, after.partitions)], doing="change")
        self._await(lambda: self.config(name) == after)

    def delete(self, name: str) -> None:
        """Delete a topic with its records, and wait until it is gone."""
        self.partitions(name)
        self._ask("delete_topics", name, [name], doing="delete")
        self._await(lambda: self._is_gone(name))

    def _ask(self, request: str, key: Any, argument: Any, *, doing: str) -> Any:
        """Send a request of the admin client for one topic and return the answer."""
        name = key if isinstance(key, str) else key.name
        return self._clients.ask(
            lambda admin: getattr(admin, request)(argument, request_timeout=REQUEST_SECONDS)[key],
            f"{doing} topic {name!r}",
            name,
        )

    def _is_gone(self, name: str) -> bool:
        try:
            self.partitions(name)
        except UnknownTopicError:
            return True
        return False

    def _await(self, has_happened: Callable[[], bool]) -> None:
        """Wait for a change to be seen: the controller answers before the brokers hear of it, one after the other."""
        deadline = monotonic() + REQUEST_SECONDS
        while monotonic() < deadline:
            try:
                if has_happened():
                    return
            except UnknownTopicError:
                pass
            sleep(_PAUSE_SECONDS)

    def _unknown(self, name: str) -> UnknownTopicError:
        close = get_close_matches(name, self.names(), 1)
        meant = f"did you mean {close[0]!r}? or " if close else ""
        return UnknownTopicError(
            f"there is no topic {name!r}", hint=f"{meant}create it: millstream topics create {name}", topic=name
        )


def _theirs(config: TopicConfig) -> dict[str, str]:
    limited = config.retention_ms is not None or config.retention_bytes is not None
    policy = "compact,delete" if config.compact and limited else "compact" if config.compact else "delete"
    settings: dict[str, Any] = {
        "cleanup.policy": policy,
        "message.timestamp.type": "LogAppendTime" if config.timestamps == "append" else "CreateTime",
        # Kafka refuses records from the future unless told otherwise; event time may be any time.
        "message.timestamp.after.max.ms": _ANY_TIME,
        "retention.ms": _WITHOUT_LIMIT if config.retention_ms is None else config.retention_ms,
        "retention.bytes": _WITHOUT_LIMIT if config.retention_bytes is None else config.retention_bytes,
        "delete.retention.ms": config.tombstone_retention_ms,
        "max.message.bytes": config.max_record_bytes + _BATCH_OVERHEAD,
    }
    return {name: str(value) for name, value in settings.items()}


def _ours(settings: Mapping[str, str], partitions: int) -> TopicConfig:
    compact = "compact" in settings["cleanup.policy"]
    deletes = "delete" in settings["cleanup.policy"]
    retention_ms, retention_bytes = int(settings["retention.ms"]), int(settings["retention.bytes"])
    return TopicConfig(
        partitions=partitions,
        timestamps="append" if settings["message.timestamp.type"] == "LogAppendTime" else "create",
        retention_ms=retention_ms if deletes and retention_ms >= 0 else None,
        retention_bytes=retention_bytes if deletes and retention_bytes >= 0 else None,
        compact=compact,
        tombstone_retention_ms=int(settings["delete.retention.ms"]),
        max_record_bytes=max(1, int(settings["max.message.bytes"]) - _BATCH_OVERHEAD),
    )
