"""Assign partitions to the members of a group: evenly per topic, with as few moves as possible."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from millstream.records import TopicPartition


def assign(
    partitions: Mapping[str, int],
    topics: Mapping[str, Collection[str]],
    previous: Mapping[str, Collection[TopicPartition]],
) -> dict[str, frozenset[TopicPartition]]:
    """Assign partitions to members; the same input always gives the same result.

    ``partitions`` has the number of partitions of each topic, ``topics`` the topics that each member reads, and
    ``previous`` the partitions that it owned. Members keep their partitions up to their fair share; the remaining
    partitions go to the members with the fewest.

    >>> sorted(len(owned) for owned in assign({"t": 5}, {"a": ["t"], "b": ["t"]}, {}).values())
    [2, 3]
    """
    result: dict[str, set[TopicPartition]] = {member: set() for member in topics}
    for topic, count in sorted(partitions.items()):
        readers = sorted(member for member, read in topics.items() if topic in read)
        if readers:
            _assign_topic(topic, count, readers, previous, result)
    return {member: frozenset(owned) for member, owned in result.items()}


def _assign_topic(
    topic: str,
    count: int,
    readers: list[str],
    previous: Mapping[str, Collection[TopicPartition]],
    result: dict[str, set[TopicPartition]],
) -> None:
    share, remainder = divmod(count, len(readers))
    partitions = [TopicPartition(topic, partition) for partition in range(count)]
    owned = {member: [each for each in partitions if each in previous.get(member, ())] for member in readers}
    # The larger shares go to the members that owned most; then to those with the fewest partitions of other topics.
    order = sorted(readers, key=lambda member: (-len(owned[member]), len(result[member]), member))
    shares = {member: share + (rank < remainder) for rank, member in enumerate(order)}
    kept = {member: owned[member][: shares[member]] for member in readers}
    free = sorted(set(partitions).difference(*kept.values()))
    for member in order:
        missing = shares[member] - len(kept[member])
        result[member].update(kept[member], free[:missing])
        free = free[missing:]
