"""Which member of a group gets which partition: even per topic, and with as few moves as that allows."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from millstream.records import TopicPartition


def assign(
    partitions: Mapping[str, int],
    topics: Mapping[str, Collection[str]],
    before: Mapping[str, Collection[TopicPartition]],
) -> dict[str, frozenset[TopicPartition]]:
    """Share out partitions among members; the same input always gives the same result.

    ``partitions`` counts those of each topic, ``topics`` says what each member reads, ``before`` what it had. Members
    keep what they had up to their fair share; the rest goes to whoever has least.

    >>> sorted(len(each) for each in assign({"t": 5}, {"a": ["t"], "b": ["t"]}, {}).values())
    [2, 3]
    """
    result: dict[str, set[TopicPartition]] = {member: set() for member in topics}
    for topic, count in sorted(partitions.items()):
        readers = sorted(member for member, read in topics.items() if topic in read)
        if readers:
            _share_out(topic, count, readers, before, result)
    return {member: frozenset(owned) for member, owned in result.items()}


def _share_out(
    topic: str,
    count: int,
    readers: list[str],
    before: Mapping[str, Collection[TopicPartition]],
    result: dict[str, set[TopicPartition]],
) -> None:
    least, more = divmod(count, len(readers))
    there = [TopicPartition(topic, partition) for partition in range(count)]
    had = {member: [each for each in there if each in before.get(member, ())] for member in readers}
    # Those who had most take the larger shares; then those who have least of other topics.
    order = sorted(readers, key=lambda member: (-len(had[member]), len(result[member]), member))
    share = {member: least + (place < more) for place, member in enumerate(order)}
    kept = {member: had[member][: share[member]] for member in readers}
    free = sorted(set(there).difference(*kept.values()))
    for member in order:
        wanted = share[member] - len(kept[member])
        result[member].update(kept[member], free[:wanted])
        free = free[wanted:]
