"""Consumer groups of a cluster."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupState
from confluent_kafka import TopicPartition as Place

from millstream.broker import GroupInfo, GroupMember
from millstream.errors import BrokerError
from millstream.foundation.names import check_name
from millstream.kafka.clients import REQUEST_SECONDS
from millstream.kafka.committed_offsets import Ledger
from millstream.kafka.marker import GROUP_SUFFIX
from millstream.records import TopicPartition

if TYPE_CHECKING:
    from millstream.kafka.clients import Clients

_OUR_CLIENTS = "millstream-"
_UNKNOWN_PROCESS = 0
_KEPT_LEDGERS = 16
_IN_TIME = {"request_timeout": REQUEST_SECONDS}


class Groups:
    """What can be done with groups."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._ledgers: dict[str, Ledger] = {}
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        """Return the names of all groups but markers, by which nobody reads; there is one for each task of an app."""
        return sorted(name for name in self._listed() if not name.endswith(GROUP_SUFFIX))

    def delete_markers(self, prefixes: Iterable[str]) -> None:
        """Delete the markers of producers whose name begins with one of these prefixes and a number."""
        wanted = re.compile(rf"({'|'.join(map(re.escape, prefixes))})\d.*{re.escape(GROUP_SUFFIX)}")
        for name in filter(wanted.fullmatch, self._listed()):
            self._ask("delete_consumer_groups", name, name, "delete")

    def _listed(self) -> list[str]:
        found: Any = self._clients.ask(lambda admin: admin.list_consumer_groups(**_IN_TIME), "list groups")
        return [each.group_id for each in found.valid]

    def info(self, name: str) -> GroupInfo:
        """Describe a group."""
        description = self._described(name)
        if description.state == ConsumerGroupState.DEAD:
            raise BrokerError(f"there is no group {name!r}", hint="see: millstream groups list", group=name)
        members = tuple(_member(each) for each in description.members)
        return GroupInfo(name=name, generation=0, members=members, committed=self.committed(name))

    def commit(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Move a group that has no members."""
        check_name("group", name)
        if not offsets:
            return
        try:
            self._ledger(name).write([Place(each.topic, each.partition, at) for each, at in offsets.items()])
        except BrokerError as error:
            if self._described(name).members:
                raise self._busy(name, "commit for") from error
            raise

    def committed(self, name: str) -> dict[TopicPartition, int]:
        """Return what a group has committed; nothing for a group that nobody knows."""
        check_name("group", name)
        topics = self._clients.metadata("list topics").topics
        places = [Place(topic, partition) for topic, found in topics.items() for partition in found.partitions]
        found = self._ledger(name).read(places) if places else []
        return {TopicPartition(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def close(self) -> None:
        """Let go of all connections."""
        with self._lock:
            ledgers, self._ledgers = list(self._ledgers.values()), {}
        for ledger in ledgers:
            ledger.close()

    def _ledger(self, name: str) -> Ledger:
        with self._lock:
            if name not in self._ledgers:
                if len(self._ledgers) >= _KEPT_LEDGERS:
                    self._ledgers.pop(next(iter(self._ledgers))).close()
                self._ledgers[name] = Ledger(self._clients, name)
            return self._ledgers[name]

    def delete(self, name: str) -> None:
        """Forget a group that has no members."""
        if self.info(name).members:
            raise self._busy(name, "delete")
        self._ask("delete_consumer_groups", name, name, "delete")

    def _described(self, name: str) -> Any:
        check_name("group", name)
        return self._ask("describe_consumer_groups", name, name, "describe")

    def _ask(self, request: str, name: str, argument: Any, doing: str) -> Any:
        """Send a request of the admin client for one group and return the answer."""
        doing = f"{doing} group {name!r}"
        return self._clients.ask(lambda admin: getattr(admin, request)([argument], **_IN_TIME)[name], doing)

    def _busy(self, name: str, what: str) -> BrokerError:
        return BrokerError(
            f"cannot {what} group {name!r}, it has live members", hint="stop its consumers first", group=name
        )


def _member(description: Any) -> GroupMember:
    owned = description.assignment.topic_partitions if description.assignment else []
    partitions = tuple(sorted(TopicPartition(each.topic, each.partition) for each in owned))
    process = description.client_id.removeprefix(_OUR_CLIENTS)
    return GroupMember(
        id=description.member_id,
        process=int(process) if process.isdigit() else _UNKNOWN_PROCESS,
        topics=tuple(dict.fromkeys(each.topic for each in partitions)),
        partitions=partitions,
    )
