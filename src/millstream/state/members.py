"""The store of foreign-key joins: members of groups, written one at a time and read group by group."""

from __future__ import annotations

from typing import Any

import msgspec

from millstream.foundation.object_codec import encode_key
from millstream.foundation.transactions import Database, Transaction
from millstream.state.encoding import shorten_key

_KEY_LIMIT = 240  # group and member together must fit into an LMDB key
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[bytes, Any]).decode


class _LoadedGroup:
    """The members of a group in memory; ``is_complete`` if all of them were loaded."""

    __slots__ = ("changed", "is_complete", "members", "prefix")

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self.members: dict[bytes, Any] = {}
        self.changed: set[bytes] = set()
        self.is_complete = False


class MemberStore:
    """Members of groups inside one transaction; a member's key is bytes and its value plain data."""

    def __init__(self, txn: Transaction, database: Database) -> None:
        self._txn = txn
        self._database = database
        self._groups: dict[Any, _LoadedGroup] = {}
        self._changed: list[_LoadedGroup] = []

    def put(self, group: Any, member: bytes, value: Any) -> None:
        """Set the value of a member; None removes it from the group."""
        loaded = self._group(group)
        loaded.members[member] = value
        if not loaded.changed:
            self._changed.append(loaded)
        loaded.changed.add(member)

    def members(self, group: Any) -> list[tuple[bytes, Any]]:
        """Return the members of a group, sorted by key."""
        loaded = self._group(group)
        if not loaded.is_complete:
            self._load(loaded)
        members = loaded.members
        return [(member, value) for member in sorted(members) if (value := members[member]) is not None]

    def flush(self) -> None:
        """Write all changes."""
        puts: list[tuple[bytes, bytes]] = []
        for group in self._changed:
            for member in group.changed:
                value = group.members[member]
                physical = group.prefix + (member if len(member) < _KEY_LIMIT else shorten_key(member, _KEY_LIMIT))
                if value is None:
                    self._txn.delete(physical, db=self._database)
                else:
                    puts.append((physical, _pack((member, value))))
            group.changed.clear()
        self._changed.clear()
        if puts:
            puts.sort()
            with self._txn.cursor(self._database) as cursor:
                cursor.putmulti(puts)

    def release(self) -> None:
        """Release the memory; all changes must have been written."""
        self._groups.clear()
        self._changed.clear()

    def __len__(self) -> int:
        return int(self._txn.stat(self._database)["entries"])

    def _group(self, group: Any) -> _LoadedGroup:
        # text and integers are used as they are; other keys as bytes, because True == 1 == 1.0
        kind = type(group)
        hashable = group if kind is str or kind is int else encode_key(group)
        loaded = self._groups.get(hashable)
        if loaded is None:
            key_bytes = shorten_key(encode_key(group), _KEY_LIMIT)
            loaded = self._groups[hashable] = _LoadedGroup(len(key_bytes).to_bytes(2, "big") + key_bytes)
        return loaded

    def _load(self, group: _LoadedGroup) -> None:
        with self._txn.cursor(self._database) as cursor:
            if cursor.set_range(group.prefix):
                for physical, stored in cursor:
                    if not physical.startswith(group.prefix):
                        break
                    member, value = _unpack(stored)
                    if member not in group.changed:
                        group.members[member] = value
        group.is_complete = True
