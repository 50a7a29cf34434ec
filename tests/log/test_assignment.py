"""Assigning partitions: each partition once, evenly, and with few moves."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from millstream.log.assignment import assign
from millstream.records import TopicPartition

counts = st.dictionaries(st.sampled_from(["s", "t", "u"]), st.integers(0, 9), max_size=3)
readers = st.dictionaries(st.sampled_from("abcde"), st.sets(st.sampled_from(["s", "t", "u"])), max_size=5)


@given(counts, readers)
def test_every_partition_goes_to_one_reader_of_its_topic(counts: dict[str, int], topics: dict[str, set[str]]) -> None:
    result = assign(counts, topics, {})
    assigned = Counter(partition for owned in result.values() for partition in owned)
    read = {topic for names in topics.values() for topic in names}
    expected = {TopicPartition(topic, p) for topic, n in counts.items() if topic in read for p in range(n)}
    assert assigned == Counter(expected)
    assert all(partition.topic in topics[member] for member, owned in result.items() for partition in owned)


@given(counts, readers)
def test_shares_of_a_topic_differ_by_one_at_most(counts: dict[str, int], topics: dict[str, set[str]]) -> None:
    result = assign(counts, topics, {})
    for topic in counts:
        shares = [sum(p.topic == topic for p in result[member]) for member, read in topics.items() if topic in read]
        assert not shares or max(shares) - min(shares) <= 1


@given(counts, readers)
def test_without_a_change_nothing_moves(counts: dict[str, int], topics: dict[str, set[str]]) -> None:
    before = assign(counts, topics, {})
    assert assign(counts, topics, before) == before


def test_a_new_member_takes_only_its_share() -> None:
    before = assign({"t": 6}, {"a": ["t"], "b": ["t"]}, {})
    after = assign({"t": 6}, {"a": ["t"], "b": ["t"], "c": ["t"]}, before)
    assert [len(after[member]) for member in "abc"] == [2, 2, 2]
    assert after["a"] < before["a"]
    assert after["b"] < before["b"]


def test_when_a_member_leaves_the_others_keep_their_partitions() -> None:
    topics = {"a": ["t"], "b": ["t"], "c": ["t"]}
    before = assign({"t": 6}, topics, {})
    del topics["b"]
    after = assign({"t": 6}, topics, before)
    assert after["a"] > before["a"]
    assert after["c"] > before["c"]
