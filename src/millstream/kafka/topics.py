"""Topics of a cluster and their settings as a ``TopicConfig``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from time import monotonic, sleep
from types import MappingProxyType
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
    TopicDescription,
)

from millstream.broker import TopicConfig, apply_config_changes, check_config
from millstream.errors import UnknownTopicError
from millstream.foundation.names import check_name
from millstream.kafka.clients import LOOKUP_SECONDS, REQUEST_SECONDS, Clients

# Overhead of a batch with one record: Kafka limits the size of batches, Millstream that of records.
_BATCH_OVERHEAD = 256
_MAX_BATCH_BYTES = 1_000_000
_CACHE_SECONDS = 60.0
_UNLIMITED = -1
_RETRY_DELAY_SECONDS = 0.02
_MAX_TIMESTAMP_MS = 2**63 - 1
_INTERNAL_PREFIX = "__"


class KafkaTopics:
    """Create, change, describe and delete topics."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._limits: dict[str, tuple[int, float]] = {}
        self._spreading: dict[str, float] = {}
        """Topics that this process has created, and until when some broker may not know them yet."""

    def batch_bytes(self, names: Iterable[str]) -> int:
        """Return the maximum size of a batch that all these topics accept; limits are cached.

        Kafka limits the size of batches per topic, but the client has only one limit per producer.
        """
        return min(_MAX_BATCH_BYTES, *(self._limit(name) for name in names))

    def _limit(self, name: str) -> int:
        limit, cached_at = self._limits.get(name, (0, float("-inf")))
        if monotonic() - cached_at > _CACHE_SECONDS:
            limit = self.config(name).max_record_bytes
            self._limits[name] = limit, monotonic()
        return limit

    def names(self) -> list[str]:
        """Return the names of all topics except Kafka's internal ones."""
        topics = self._clients.metadata("list topics").topics
        return sorted(name for name in topics if not name.startswith(_INTERNAL_PREFIX))

    def partitions(self, name: str) -> int:
        """Return the number of partitions of a topic."""
        return len(self._describe(name).partitions)

    def _describe(self, name: str) -> TopicDescription:
        check_name("topic", name)
        try:
            description: TopicDescription = self._request(
                "describe_topics", name, TopicCollection([name]), action="describe"
            )
        except UnknownTopicError as error:
            raise self._unknown_topic(name) from error
        return description

    def config(self, name: str) -> TopicConfig:
        """Return the settings of a topic."""
        return self.config_and_id(name)[0]

    def config_and_id(self, name: str) -> tuple[TopicConfig, str]:
        """Return the settings of a topic and its id, which changes when the topic is deleted and created again."""
        description = self._describe(name)
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = self._request("describe_configs", resource, [resource], action="read the settings of")
        settings = {key: entry.value for key, entry in entries.items()}
        return _from_kafka(settings, len(description.partitions)), str(description.topic_id)

    def create(self, name: str, config: TopicConfig, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        """Create a topic with the cluster's default replication factor, and wait until it can be used."""
        check_name("topic", name)
        check_config(config)
        all_settings = {**_to_kafka(config), **settings}
        topic = NewTopic(name, num_partitions=config.partitions, replication_factor=-1, config=all_settings)
        self._request("create_topics", name, [topic], action="create")
        self._spreading[name] = monotonic() + REQUEST_SECONDS
        self._wait_until(lambda: self.partitions(name) >= config.partitions)

    def alter(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change settings of a topic; the number of partitions can only grow."""
        before = self.config(name)
        after = apply_config_changes(name, before, changes)
        settings, old = _to_kafka(after), _to_kafka(before)
        changed = {key: value for key, value in settings.items() if value != old[key]}
        if changed:
            entries = [
                ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in changed.items()
            ]
            resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
            self._request("incremental_alter_configs", resource, [resource], action="change")
        if after.partitions > before.partitions:
            self._request("create_partitions", name, [NewPartitions(name, after.partitions)], action="change")
        self._wait_until(lambda: self.config(name) == after)

    def delete(self, name: str) -> None:
        """Delete a topic with its records, and wait until the deletion is visible."""
        self.partitions(name)
        self._spreading.pop(name, None)
        self._request("delete_topics", name, [name], action="delete")
        self._wait_until(lambda: self._is_deleted(name))

    def _request(self, request: str, key: Any, argument: Any, *, action: str) -> Any:
        """Send a request of the admin client for one topic and return the response.

        Any broker may answer it. One that does not know a new topic yet is asked again.
        """
        name = key if isinstance(key, str) else key.name
        attempt_seconds = LOOKUP_SECONDS if request.startswith("describe") else REQUEST_SECONDS
        while True:
            try:
                return self._clients.request(
                    lambda admin: getattr(admin, request)(argument, request_timeout=REQUEST_SECONDS)[key],
                    f"{action} topic {name!r}",
                    name,
                    attempt_seconds=attempt_seconds,
                )
            except UnknownTopicError:
                if monotonic() > self._spreading.get(name, 0.0):
                    raise
                sleep(_RETRY_DELAY_SECONDS)

    def _is_deleted(self, name: str) -> bool:
        try:
            self.partitions(name)
        except UnknownTopicError:
            return True
        return False

    def _wait_until(self, is_visible: Callable[[], bool]) -> None:
        """Wait until a change is visible: the controller responds before all brokers have applied it."""
        deadline = monotonic() + REQUEST_SECONDS
        while monotonic() < deadline:
            try:
                if is_visible():
                    return
            except UnknownTopicError:
                pass
            sleep(_RETRY_DELAY_SECONDS)

    def _unknown_topic(self, name: str) -> UnknownTopicError:
        matches = get_close_matches(name, [topic for topic in self.names() if topic != name], 1)  # it may exist by now
        suggestion = f"did you mean {matches[0]!r}? or " if matches else ""
        return UnknownTopicError(
            f"there is no topic {name!r}", hint=f"{suggestion}create it: millstream topics create {name}", topic=name
        )


def _to_kafka(config: TopicConfig) -> dict[str, str]:
    limited = config.retention_ms is not None or config.retention_bytes is not None
    policy = "compact,delete" if config.compact and limited else "compact" if config.compact else "delete"
    settings: dict[str, Any] = {
        "cleanup.policy": policy,
        "message.timestamp.type": "LogAppendTime" if config.timestamps == "append" else "CreateTime",
        # By default Kafka refuses records from the future; event time can be any time.
        "message.timestamp.after.max.ms": _MAX_TIMESTAMP_MS,
        "retention.ms": _UNLIMITED if config.retention_ms is None else config.retention_ms,
        "retention.bytes": _UNLIMITED if config.retention_bytes is None else config.retention_bytes,
        "delete.retention.ms": config.tombstone_retention_ms,
        "max.message.bytes": config.max_record_bytes + _BATCH_OVERHEAD,
    }
    return {name: str(value) for name, value in settings.items()}


def _from_kafka(settings: Mapping[str, str], partitions: int) -> TopicConfig:
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
