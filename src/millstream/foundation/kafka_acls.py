"""The minimal ACLs that an app needs on a Kafka cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from millstream.foundation.names import check_app_on_kafka

READER_GROUP = "millstream.readers"
"""The group that consumers must configure but never join, so it needs no ACL."""


class Acl(NamedTuple):
    """Allow ``operation`` on the resource ``name``, or on all resources whose name starts with it."""

    operation: str
    kind: Literal["topic", "group", "transactional-id"]
    name: str
    is_prefix: bool = False

    @property
    def command(self) -> str:
        """The call of Kafka's ``kafka-acls`` tool that adds the ACL."""
        pattern = " --resource-pattern-type prefixed" if self.is_prefix else ""
        options = f"--operation {self.operation} --{self.kind} {self.name}{pattern}"
        return f"kafka-acls --add --allow-principal User:NAME {options}"


def required_acls(
    app: str, reads: Iterable[str], writes: Iterable[str], *, creates: bool, own_prefixes: Iterable[str] = ()
) -> list[Acl]:
    """Return the ACLs that an app needs to read and write these topics, with markers and committed offsets.

    The names of its journal and its changelogs start with ``own_prefixes``.
    """
    check_app_on_kafka(app)
    reads, writes = sorted(set(reads)), sorted(set(writes))
    acls = [Acl(operation, "topic", topic) for topic in reads for operation in ("Read", "DescribeConfigs")]
    for topic in writes:
        operations = ("Write", "DescribeConfigs") if topic in reads else ("Read", "Write", "DescribeConfigs")
        acls += [Acl(operation, "topic", topic) for operation in operations]
    acls = list(dict.fromkeys(acls))
    if creates:
        acls += [Acl("Create", "topic", topic) for topic in sorted({*reads, *writes})]
    own = ["Read", "Write", "DescribeConfigs", *(["Create"] if creates else [])]
    acls += [Acl(operation, "topic", prefix, is_prefix=True) for prefix in own_prefixes for operation in own]
    return [
        *acls,
        Acl("Read", "group", app),
        Acl("Read", "group", f"{app}.", is_prefix=True),
        Acl("Write", "transactional-id", f"{app}.", is_prefix=True),
    ]
