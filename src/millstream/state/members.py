"""The store behind foreign-key joins: members of groups, which come one by one and are asked for group by group."""

from __future__ import annotations

from typing import Any

import msgspec

from millstream.foundation.object_codec import encode_key
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
        self._groups: dict[Any, _Group] = {}
        self._changed: list[_Group] = []

    def put(self, group: Any, member: bytes, value: Any) -> None:
        """Set the value of a member; None takes it out of the group."""
        found = self._group(group)
        found.members[member] = value
        if not found.changed:
            self._changed.append(found)
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
        puts: list[tuple[bytes, bytes]] = []
        for group in self._changed:
            for member in group.changed:
                value = group.members[member]
                name = group.prefix + (member if len(member) < _LONGEST_NAME else fitted(member, _LONGEST_NAME))
                if value is None:
                    self._txn.delete(name, db=self._database)
                else:
                    puts.append((name, _pack((member, value))))
            group.changed.clear()
        self._changed.clear()
        if puts:
            puts.sort()
            with self._txn.cursor(self._database) as cursor:
                cursor.putmulti(puts)

    def release(self) -> None:
        """Forget what is in memory, when all has been written: it is on the disk from now on."""
        self._groups.clear()
        self._changed.clear()

    def __len__(self) -> int:
        return int(self._txn.stat(self._database)["entries"])

    def _group(self, group: Any) -> _Group:
        # text and numbers are their own handles; other keys are told apart by their bytes, as True == 1 == 1.0
        kind = type(group)
        handle = group if kind is str or kind is int else encode_key(group)
        found = self._groups.get(handle)
        if found is None:
            name = fitted(encode_key(group), _LONGEST_NAME)
            found = self._groups[handle] = _Group(len(name).to_bytes(2, "big") + name)
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
