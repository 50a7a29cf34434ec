"""The store behind foreign-key joins: members of groups, which come one by one and are asked for group by group."""

from __future__ import annotations

from typing import Any

import msgspec

from millstream.native import encode_key
from millstream.state.encoding import fitted

_LONGEST_NAME = 240  # group and member together must fit into a key of LMDB
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[bytes, Any]).decode


class _Group:
    """What is known of a group in memory; ``whole`` says whether that is all of it."""

    __slots__ = ("changed", "members", "prefix", "whole")

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self.members: dict[bytes, Any] = {}
        self.changed: set[bytes] = set()
        self.whole = False


class MemberStore:
    """Members of groups inside one transaction; a member's key is bytes and its value plain data."""

    def __init__(self, txn: Any, database: Any) -> None:
        self._txn = txn
        self._database = database
        self._groups: dict[bytes, _Group] = {}

    def put(self, group: Any, member: bytes, value: Any) -> None:
        """Set the value of a member; None takes it out of the group."""
        found = self._group(group)
        found.members[member] = value
        found.changed.add(member)

    def members(self, group: Any) -> list[tuple[bytes, Any]]:
        """Return the members of a group, by key."""
        found = self._group(group)
        if not found.whole:
            self._load(found)
        members = found.members
        return [(member, value) for member in sorted(members) if (value := members[member]) is not None]

    def flush(self) -> None:
        """Write all changes."""
        for group in self._groups.values():
            for member in sorted(group.changed):
                value, name = group.members[member], group.prefix + fitted(member, _LONGEST_NAME)
                if value is None:
                    self._txn.delete(name, db=self._database)
                else:
                    self._txn.put(name, _pack((member, value)), db=self._database)
            group.changed.clear()

    def __len__(self) -> int:
        return int(self._txn.stat(self._database)["entries"])

    def _group(self, group: Any) -> _Group:
        key = encode_key(group)
        found = self._groups.get(key)
        if found is None:
            name = fitted(key, _LONGEST_NAME)
            found = self._groups[key] = _Group(len(name).to_bytes(2, "big") + name)
        return found

    def _load(self, group: _Group) -> None:
        with self._txn.cursor(self._database) as cursor:
            if cursor.set_range(group.prefix):
                for name, stored in cursor:
                    if not name.startswith(group.prefix):
                        break
                    member, value = _unpack(stored)
                    if member not in group.changed:
                        group.members[member] = value
        group.whole = True
