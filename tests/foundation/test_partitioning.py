from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.foundation.partitioning import murmur2, partition_of, partitions_of

# From the tests of Kafka's Java client.
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "signed"), JAVA.items())
def test_murmur2_equals_kafkas_java_client(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


@pytest.mark.parametrize(("key", "signed"), JAVA.items())
def test_a_partition_is_chosen_as_in_java(key: bytes, signed: int) -> None:
    assert partition_of(key, 7) == (signed & 0x7FFFFFFF) % 7


@given(st.lists(st.binary(max_size=40), max_size=200), st.integers(1, 50))
def test_many_keys_get_the_same_partitions_as_single_keys(keys: list[bytes], partitions: int) -> None:
    assert partitions_of(keys, partitions).tolist() == [partition_of(key, partitions) for key in keys]


@given(st.binary(max_size=40), st.integers(64, 100))
def test_the_vectorised_path_handles_every_key(key: bytes, copies: int) -> None:
    assert set(partitions_of([key] * copies, 1_000).tolist()) == {partition_of(key, 1_000)}


@pytest.mark.parametrize("size", [5, 10_000])
def test_bytes_like_keys_get_the_partition_of_their_bytes(size: int) -> None:
    key = b"k" * size
    like: Any = bytearray(key)  # a third-party serde may return this
    assert partition_of(like, 7) == partition_of(key, 7) == partitions_of([key] * 100, 7)[0]
