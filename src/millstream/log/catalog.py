"""Which topics there are, how they are configured, and which directory is theirs.

The catalog is the truth for configurations. A topic's directory carries the id that the catalog gave it: a process
that still has the directory of a deleted topic open finds the id gone, and never writes into the void.
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
from millstream.errors import TopicExistsError, UnknownTopicError
from millstream.foundation.names import check_name
from millstream.foundation.storage import Environment, close_environments, open_environment
from millstream.log.topic import Topic
from millstream.log.waiting import notify

META_DATABASES = ("topics", "groups", "committed")


class _Entry(msgspec.Struct, frozen=True):
    id: str
    config: TopicConfig


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(_Entry).decode


class Catalog:
    """The topics of a log directory."""

    def __init__(self, root: Path, *, sync: bool) -> None:
        self._root = root
        self._sync = sync
        self._known: dict[str, Topic] = {}
        self._looked: dict[str, tuple[Environment, int]] = {}
        """At which commit of the catalog a topic was looked up; until the next one it is as it was."""
        self._meta: Environment | None = None

    @property
    def meta(self) -> Environment:
        """The environment that topics and groups share."""
        if self._meta is None or not self._meta.is_open:
            self._meta = open_environment(self._root / "meta", META_DATABASES, sync=self._sync)
        return self._meta

    def names(self) -> list[str]:
        """Return the names of all topics in order."""
        meta = self.meta
        with meta.read() as txn, txn.cursor(db=meta.databases["topics"]) as cursor:
            return [key.decode() for key in cursor.iternext(values=False)]

    def get(self, name: str) -> Topic:
        """Return a topic with the configuration it has now, or say which name may have been meant."""
        meta = self.meta
        commit = meta.last_commit()  # before the look: a change meanwhile only makes the next one look again
        known = self._known.get(name)
        if known is not None and self._looked.get(name) == (meta, commit) and known.has_directory():
            return known
        known = self._look_up(name, meta)
        self._looked[name] = meta, commit
        return known

    def _look_up(self, name: str, meta: Environment) -> Topic:
        with meta.read() as txn:
            stored = txn.get(check_name("topic", name).encode(), db=meta.databases["topics"])
        if stored is None:
            raise self._unknown(name)
        entry = _unpack(stored)
        known = self._known.get(name)
        if known is None or known.id != entry.id or known.config != entry.config:
            known = self._known[name] = Topic(name, entry.id, entry.config, self._directory(name), sync=self._sync)
        if not known.is_there():
            raise self._unknown(name)
        return known

    def create(self, name: str, config: TopicConfig) -> None:
        """Make a topic; the directory comes first, so that a crash leaves no topic without one."""
        check_name("topic", name)
        check_config(config)
        meta = self.meta

        def change(txn: Any) -> None:
            topics = meta.databases["topics"]
            stored = txn.get(name.encode(), db=topics)
            if stored is not None and self._is_whole(name, _unpack(stored)):
                raise TopicExistsError(f"topic {name!r} exists already", hint="choose another name", topic=name)
            entry = _Entry(uuid4().hex, config)
            self._remove_directory(name)
            Topic(name, entry.id, config, self._directory(name), sync=self._sync).make()
            txn.put(name.encode(), _pack(entry), db=topics)

        meta.update(change)

    def alter(self, name: str, changes: dict[str, Any]) -> None:
        """Change the configuration of a topic; partitions can only grow."""
        meta = self.meta
        self.get(name)

        def change(txn: Any) -> None:
            stored = txn.get(name.encode(), db=meta.databases["topics"])
            if stored is None:
                raise self._unknown(name)
            entry = _unpack(stored)
            config = apply_config_changes(name, entry.config, changes)
            txn.put(name.encode(), _pack(_Entry(entry.id, config)), db=meta.databases["topics"])

        meta.update(change)

    def delete(self, name: str) -> None:
        """Remove a topic, its records and what groups have committed for it."""
        check_name("topic", name)
        meta = self.meta

        def change(txn: Any) -> None:
            if not txn.delete(name.encode(), db=meta.databases["topics"]):
                raise self._unknown(name)
            for key in list(_commits_for(txn, meta.databases["committed"], name)):
                txn.delete(key, db=meta.databases["committed"])
            self._remove_directory(name)

        meta.update(change)
        self._known.pop(name, None)
        for trash in (self._root / "topics").glob(".*"):
            shutil.rmtree(trash, ignore_errors=True)

    def close(self) -> None:
        """Close what this process has open of the log directory."""
        self._known.clear()
        close_environments(self._root)

    def _directory(self, name: str) -> Path:
        return self._root / "topics" / check_name("topic", name)

    def _is_whole(self, name: str, entry: _Entry) -> bool:
        return Topic(name, entry.id, entry.config, self._directory(name), sync=self._sync).is_there()

    def _remove_directory(self, name: str) -> None:
        """Remove what is left of a topic, and tell everybody who has it open that it is gone."""
        directory = self._directory(name)
        if not directory.exists():
            return
        Topic.poison(directory, sync=self._sync)
        trash = directory.with_name(f".{uuid4().hex}")
        directory.rename(trash)
        notify(trash / "waiters")  # who wakes up looks for the directory

    def _unknown(self, name: str) -> UnknownTopicError:
        close = get_close_matches(name, self.names(), 1)
        meant = f"did you mean {close[0]!r}? or " if close else ""
        return UnknownTopicError(
            f"there is no topic {name!r}", hint=f"{meant}create it: millstream topics create {name}", topic=name
        )


def _commits_for(txn: Any, committed: Any, topic: str) -> Iterator[bytes]:
    wanted = topic.encode()
    with txn.cursor(db=committed) as cursor:
        for key in cursor.iternext(values=False):
            if key.split(b"\0")[1] == wanted:
                yield key
