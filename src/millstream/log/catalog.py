"""The topics of a log directory, their configurations and their directories.

The catalog is the source of truth for configurations. A topic's directory contains the id that the catalog assigned.
Deleting the topic removes the id, so a process that still has the directory open cannot write to it any more.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from millstream.broker import TopicConfig, apply_config_changes, check_config
from millstream.errors import DamagedError, TopicExistsError, UnknownTopicError
from millstream.foundation.content import CATALOG
from millstream.foundation.damage import damaged
from millstream.foundation.names import check_name
from millstream.foundation.storage import Environment, close_environments, open_environment
from millstream.foundation.stored import decoding
from millstream.foundation.transactions import Database, Transaction
from millstream.log.topic import Topic
from millstream.log.waiting import notify

META_DATABASES = ("topics", "groups", "committed", "identity", "ends")
_TRASH = ".deleted-"
_CLUSTER_ID = b"cluster-id"


class _TopicEntry(msgspec.Struct, frozen=True):
    id: str
    config: TopicConfig


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(_TopicEntry).decode
_unpack_ends = msgspec.msgpack.Decoder(list[int]).decode


class TopicCatalog:
    """The topics of a log directory."""

    def __init__(self, root: Path, *, sync: bool) -> None:
        self._root = root
        self._sync = sync
        self._topics: dict[str, Topic] = {}
        self._checked_at: dict[str, tuple[Environment, int]] = {}
        """The commit of the catalog at which a topic was last looked up; it is unchanged until the next commit."""
        self._meta: Environment | None = None

    @property
    def meta(self) -> Environment:
        """The environment shared by topics and groups."""
        if self._meta is None or not self._meta.is_open:
            lost = next(self._topic_directories(), None) if self._is_new() else None
            if lost is not None and self._is_new():  # no other process has created it and its first topic meanwhile
                raise self._lost_catalog(lost)
            meta = open_environment(self._root / "meta", META_DATABASES, sync=self._sync, content=CATALOG)
            self._check_not_replaced(meta)
            self._meta = meta
        return self._meta

    def _is_new(self) -> bool:
        return not (self._root / "meta" / "data.mdb").exists()

    def _check_not_replaced(self, meta: Environment) -> None:
        """Refuse an empty catalog beside topics with records: it was created after the real catalog was lost."""
        with meta.read() as txn:
            is_empty = txn.stat(meta.databases["topics"])["entries"] == 0
        lost = next(filter(self._has_records, self._topic_directories() if is_empty else ()), None)
        if lost is not None:
            raise self._lost_catalog(lost)

    def _topic_directories(self) -> Iterator[Path]:
        return (data.parent for data in (self._root / "topics").glob("[!.]*/data.mdb"))

    def _has_records(self, directory: Path) -> bool:
        return Topic.content(directory, sync=self._sync).has_records

    def _lost_catalog(self, directory: Path) -> DamagedError:
        return DamagedError(
            f"{str(self._root / 'meta')!r} has lost its topics, but {str(directory)!r} exists",
            hint=f"restore the directory {self._root.name!r} from a backup; to start over, remove it yourself",
            path=str(self._root / "meta"),
        )

    def cluster_id(self) -> str:
        """Return the random id of the log, which is created on first use."""
        meta = self.meta
        with meta.read() as txn:
            stored = txn.get(_CLUSTER_ID, db=meta.databases["identity"])
        return bytes(stored).decode() if stored is not None else meta.update(self._assign_cluster_id)

    def _assign_cluster_id(self, txn: Transaction) -> str:
        identity = self.meta.databases["identity"]
        stored = txn.get(_CLUSTER_ID, db=identity)
        if stored is None:  # otherwise another process was first
            stored = uuid4().hex.encode()
            txn.put(_CLUSTER_ID, stored, db=identity)
        return stored.decode()

    def names(self) -> list[str]:
        """Return the names of all topics in order."""
        meta = self.meta
        with decoding(meta.path), meta.read() as txn, txn.cursor(db=meta.databases["topics"]) as cursor:
            return [key.decode() for key in cursor.iternext(values=False)]

    def get(self, name: str) -> Topic:
        """Return a topic with its current configuration; the error for an unknown topic suggests a similar name."""
        meta = self.meta
        commit = meta.last_commit()  # read before the lookup: a concurrent change makes the next call look again
        topic = self._topics.get(name)
        if topic is not None and self._checked_at.get(name) == (meta, commit) and topic.has_directory():
            return topic
        topic = self._look_up(name, meta)
        self._checked_at[name] = meta, commit
        return topic

    def _look_up(self, name: str, meta: Environment) -> Topic:
        with meta.read() as txn:
            stored = txn.get(check_name("topic", name).encode(), db=meta.databases["topics"])
        if stored is None:
            raise self._unknown_topic(name)
        entry = self._entry(stored)
        topic = self._topics.get(name)
        is_known = topic is not None and topic.id == entry.id and topic.config == entry.config
        if topic is None or not is_known:
            topic = Topic(name, entry.id, entry.config, self._directory(name), sync=self._sync)
        if not topic.exists():
            raise UnknownTopicError(
                f"the records of topic {name!r} are lost: its directory was deleted or replaced",
                hint=f"restore {str(topic.directory)!r} from a backup, or create it: millstream topics create {name}",
                topic=name,
            )
        if not is_known:
            self._check_ends(topic, meta)
            self._topics[name] = topic
        return topic

    def _check_ends(self, topic: Topic, meta: Environment) -> None:
        """Refuse a topic or a catalog that is older than the other: an older copy of its file was put back."""
        if topic.catalog_commit() > meta.last_commit():
            raise damaged(meta.path / "data.mdb", f"it is older than topic {topic.name!r}")
        with meta.read() as txn:
            stored = txn.get(topic.id.encode(), db=meta.databases["ends"])
        if stored is None:
            return
        with decoding(meta.path):
            known = _unpack_ends(stored)
        for partition, (offsets, end) in enumerate(zip(topic.offsets(), known, strict=False)):
            if offsets.end < end:
                raise damaged(
                    topic.directory / "data.mdb",
                    f"partition {partition} ends at offset {offsets.end}, but had records up to offset {end}",
                )

    def remember_ends(self) -> None:
        """Store where the topics that this process has used end, and in them how far the catalog was."""
        meta = self.meta
        topics = [topic for topic in self._topics.values() if topic.exists()]
        ends = {topic.id.encode(): [offsets.end for offsets in topic.offsets()] for topic in topics}

        def change(txn: Transaction) -> None:
            for key, offsets in ends.items():
                txn.put(key, msgspec.msgpack.encode(offsets), db=meta.databases["ends"])

        if ends:
            meta.update(change)
        commit = meta.last_commit()
        for topic in topics:
            topic.remember_catalog(commit)

    def create(self, name: str, config: TopicConfig) -> None:
        """Create a topic; its directory is created first, so that a crash leaves no topic without a directory."""
        check_name("topic", name)
        check_config(config)
        meta = self.meta

        def change(txn: Transaction) -> None:
            topics = meta.databases["topics"]
            stored = txn.get(name.encode(), db=topics)
            if stored is not None and self._is_complete(name, self._entry(stored)):
                raise TopicExistsError(f"topic {name!r} already exists", hint="choose another name", topic=name)
            entry = _TopicEntry(uuid4().hex, config)
            self._remove_directory(name, None if stored is None else self._entry(stored).id)
            Topic(name, entry.id, config, self._directory(name), sync=self._sync).initialize()
            txn.put(name.encode(), _pack(entry), db=topics)

        meta.update(change)

    def alter(self, name: str, changes: dict[str, Any]) -> None:
        """Change the configuration of a topic; the number of partitions can only grow."""
        meta = self.meta
        self.get(name)

        def change(txn: Transaction) -> None:
            stored = txn.get(name.encode(), db=meta.databases["topics"])
            if stored is None:
                raise self._unknown_topic(name)
            entry = self._entry(stored)
            config = apply_config_changes(name, entry.config, changes)
            txn.put(name.encode(), _pack(_TopicEntry(entry.id, config)), db=meta.databases["topics"])

        meta.update(change)

    def delete(self, name: str) -> None:
        """Delete a topic, its records and the offsets that groups have committed for it."""
        check_name("topic", name)
        meta = self.meta

        def change(txn: Transaction) -> None:
            stored = txn.get(name.encode(), db=meta.databases["topics"])
            if stored is None:
                raise self._unknown_topic(name)
            entry = self._entry(stored)
            txn.delete(name.encode(), db=meta.databases["topics"])
            txn.delete(entry.id.encode(), db=meta.databases["ends"])
            for key in list(_committed_keys(txn, meta.databases["committed"], name)):
                txn.delete(key, db=meta.databases["committed"])
            self._remove_directory(name, entry.id)

        meta.update(change)
        self._topics.pop(name, None)
        for trash in (self._root / "topics").glob(f"{_TRASH}*"):
            shutil.rmtree(trash, ignore_errors=True)

    def close(self) -> None:
        """Close the environments of the log directory in this process."""
        self._topics.clear()
        close_environments(self._root)

    def _entry(self, stored: bytes) -> _TopicEntry:
        with decoding(self._root / "meta"):
            return _unpack(stored)

    def _directory(self, name: str) -> Path:
        return self._root / "topics" / check_name("topic", name)

    def _is_complete(self, name: str, entry: _TopicEntry) -> bool:
        return Topic(name, entry.id, entry.config, self._directory(name), sync=self._sync).exists()

    def _remove_directory(self, name: str, id: str | None) -> None:
        """Remove the directory of the topic with this id and notify every process that has it open.

        A crash during ``create`` or ``delete`` leaves a directory without records or without an id; it is removed too.
        A directory with the records of another topic is not: the catalog was lost or replaced.
        """
        directory = self._directory(name)
        if not directory.exists():
            return
        content = Topic.content(directory, sync=self._sync)
        if content.has_records and content.id not in (None, id):
            raise self._lost_catalog(directory)
        Topic.invalidate(directory, sync=self._sync)
        trash = directory.with_name(f"{_TRASH}{uuid4().hex}")
        directory.rename(trash)
        notify(trash / "waiters")  # a waiter that wakes up checks the directory

    def _unknown_topic(self, name: str) -> UnknownTopicError:
        matches = get_close_matches(name, [topic for topic in self.names() if topic != name], 1)  # it may exist by now
        suggestion = f"did you mean {matches[0]!r}? or " if matches else ""
        return UnknownTopicError(
            f"there is no topic {name!r}", hint=f"{suggestion}create it: millstream topics create {name}", topic=name
        )


def _committed_keys(txn: Transaction, committed: Database, topic: str) -> Iterator[bytes]:
    name = topic.encode()
    with txn.cursor(db=committed) as cursor:
        for key in cursor.iternext(values=False):
            if key.split(b"\0")[1] == name:
                yield key
