"""The least rights that an app needs on a Kafka cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

READER_GROUP = "millstream.readers"
"""The group that consumers must name though they never join it; no right is needed for that."""


class Acl(NamedTuple):
    """One rule: a user may do ``operation`` with what is named, or with all whose names begin so."""

    operation: str
    kind: Literal["topic", "group", "transactional-id"]
    name: str
    is_prefix: bool = False

    @property
    def command(self) -> str:
        """The rule as a call of Kafka's own tool."""
        pattern = " --resource-pattern-type prefixed" if self.is_prefix else ""
        what = f"--operation {self.operation} --{self.kind} {self.name}{pattern}"
        return f"kafka-acls --add --allow-principal User:NAME {what}"


def required_acls(app: str, reads: Iterable[str], writes: Iterable[str], *, creates: bool) -> list[Acl]:
    """Return what an app needs in order to read and write these topics, with markers and committed offsets."""
    reads, writes = sorted(set(reads)), sorted(set(writes))
    found = [Acl(operation, "topic", topic) for topic in reads for operation in ("Read", "DescribeConfigs")]
    for topic in writes:
        operations = ("Write", "DescribeConfigs") if topic in reads else ("Read", "Write", "DescribeConfigs")
        found += [Acl(operation, "topic", topic) for operation in operations]
    found = list(dict.fromkeys(found))
    if creates:
        found += [Acl("Create", "topic", topic) for topic in sorted({*reads, *writes})]
    return [
        *found,
        Acl("Read", "group", app),
        Acl("Read", "group", f"{app}.", is_prefix=True),
        Acl("Write", "transactional-id", f"{app}.", is_prefix=True),
    ]
