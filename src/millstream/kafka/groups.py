"""Consumer groups of a cluster."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupState
from confluent_kafka import TopicPartition as KafkaPartition

from millstream.broker import GroupInfo, GroupMember
from millstream.errors import BrokerError
from millstream.foundation.names import check_name
from millstream.kafka.clients import LOOKUP_SECONDS, REQUEST_SECONDS
from millstream.kafka.committed_offsets import CommittedOffsets
from millstream.kafka.marker import GROUP_SUFFIX
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients

_CLIENT_ID_PREFIX = "millstream-"
_UNKNOWN_PROCESS = 0
_MAX_CACHED_GROUPS = 16
_TIMEOUT = {"request_timeout": REQUEST_SECONDS}


class KafkaGroups:
    """List, describe, move and delete consumer groups."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._committed_offsets: dict[str, CommittedOffsets] = {}
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        """Return the names of all groups except markers, which are not consumer groups: each task of an app has one."""
        return sorted(name for name in self._list_names() if not name.endswith(GROUP_SUFFIX))

    def delete_markers(self, prefixes: Iterable[str]) -> None:
        """Delete the markers of producers whose name is one of the prefixes followed by a number."""
        pattern = re.compile(rf"({'|'.join(map(re.escape, prefixes))})\d.*{re.escape(GROUP_SUFFIX)}")
        for name in filter(pattern.fullmatch, self._list_names()):
            self._request("delete_consumer_groups", name, name, "delete")

    def _list_names(self) -> list[str]:
        listing: Any = self._clients.request(lambda admin: admin.list_consumer_groups(**_TIMEOUT), "list groups")
        return [group.group_id for group in listing.valid]

    def info(self, name: str) -> GroupInfo:
        """Describe a group."""
        description = self._describe(name)
        if description.state == ConsumerGroupState.DEAD:
            raise BrokerError(f"there is no group {name!r}", hint="see: millstream groups list", group=name)
        return GroupInfo(name=name, generation=0, members=_members(description), committed=self.committed(name))

    def members(self, name: str) -> tuple[GroupMember, ...]:
        """Return the members of a group, which only its coordinator is asked for; none for an unknown group."""
        return _members(self._describe(name))

    def commit(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the offsets of a group that has no members."""
        check_name("group", name)
        if not offsets:
            return
        try:
            self._offsets_of(name).write(
                [KafkaPartition(partition.topic, partition.partition, offset) for partition, offset in offsets.items()]
            )
        except BrokerError as error:
            if self._describe(name).members:
                raise self._has_members_error(name, "commit for") from error
            raise

    def committed(self, name: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group; empty for an unknown group."""
        check_name("group", name)
        topics = self._clients.metadata("list topics").topics
        partitions = [KafkaPartition(topic, number) for topic, info in topics.items() for number in info.partitions]
        committed = self._offsets_of(name).read(partitions) if partitions else []
        return {TopicPartition(entry.topic, entry.partition): entry.offset for entry in committed if entry.offset >= 0}

    def close(self) -> None:
        """Close all consumers."""
        with self._lock:
            cached, self._committed_offsets = list(self._committed_offsets.values()), {}
        for offsets in cached:
            offsets.close()

    def _offsets_of(self, name: str) -> CommittedOffsets:
        with self._lock:
            if name not in self._committed_offsets:
                if len(self._committed_offsets) >= _MAX_CACHED_GROUPS:
                    self._committed_offsets.pop(next(iter(self._committed_offsets))).close()
                self._committed_offsets[name] = CommittedOffsets(self._clients, name)
            return self._committed_offsets[name]

    def delete(self, name: str) -> None:
        """Delete a group that has no members."""
        if self.info(name).members:
            raise self._has_members_error(name, "delete")
        self._request("delete_consumer_groups", name, name, "delete")

    def _describe(self, name: str) -> Any:
        check_name("group", name)
        return self._request("describe_consumer_groups", name, name, "describe", LOOKUP_SECONDS)

    def _request(
        self, request: str, name: str, argument: Any, action: str, attempt_seconds: float = REQUEST_SECONDS
    ) -> Any:
        """Send a request of the admin client for one group and return the response."""
        return self._clients.request(
            lambda admin: getattr(admin, request)([argument], **_TIMEOUT)[name],
            f"{action} group {name!r}",
            attempt_seconds=attempt_seconds,
        )

    def _has_members_error(self, name: str, action: str) -> BrokerError:
        return BrokerError(
            f"cannot {action} group {name!r}, it has live members", hint="stop its consumers first", group=name
        )


def _members(description: Any) -> tuple[GroupMember, ...]:
    return tuple(map(_member, description.members))


def _member(description: Any) -> GroupMember:
    owned = description.assignment.topic_partitions if description.assignment else []
    partitions = tuple(sorted(TopicPartition(partition.topic, partition.partition) for partition in owned))
    process = description.client_id.removeprefix(_CLIENT_ID_PREFIX)
    return GroupMember(
        id=description.member_id,
        process=int(process) if process.isdigit() else _UNKNOWN_PROCESS,
        host=description.host.removeprefix("/"),
        topics=tuple(dict.fromkeys(partition.topic for partition in partitions)),
        partitions=partitions,
    )
