"""The versioned store behaves like a plain model, and its size depends on the history, not on all past versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.foundation.object_codec import OBJECT_CODEC
from millstream.foundation.storage import open_environment
from millstream.state.versioned import PutResult, VersionedStore

HISTORY = 100_000
KEYS = st.sampled_from(["a", "ab", "k" * 600, 1, ("t", 1)])
TIMES = st.integers(0, 400_000) | st.sampled_from([0, 50_000, 100_000, 150_000, 200_000])
CHANGES = st.lists(st.lists(st.tuples(KEYS, TIMES, st.none() | st.integers(0, 9)), max_size=8), max_size=8)


@contextmanager
def stores() -> Iterator[Any]:
    """Yield a function that opens the store in a separate transaction."""
    with TemporaryDirectory() as directory:
        environment = open_environment(Path(directory) / "e", ("newest", "older"), sync=False)

        @contextmanager
        def opened() -> Iterator[VersionedStore]:
            with environment.write() as txn:
                store = VersionedStore(
                    txn, environment.databases["newest"], environment.databases["older"], OBJECT_CODEC, HISTORY
                )
                yield store
                store.flush()

        yield opened
        environment.close()


class Model:
    """All versions that were ever added, read by the documented rules."""

    def __init__(self) -> None:
        self.versions: dict[str, dict[int, int | None]] = {}
        self.observed = -1

    def put(self, key: Any, value: int | None, time: int) -> PutResult:
        if time < self.observed - HISTORY:
            return PutResult.TOO_OLD
        self.observed = max(self.observed, time)
        versions = self.versions.setdefault(repr(key), {})
        newest = max(versions, default=-1)
        versions[time] = value
        return PutResult.NEWEST if time >= newest else PutResult.OLDER

    def newest(self, key: Any) -> tuple[Any, int]:
        versions = self.versions.get(repr(key), {})
        at = max(versions, default=-1)
        return (versions[at], at) if versions and versions[at] is not None else (None, -1)

    def as_of(self, key: Any, time: int) -> tuple[Any, int]:
        newest = self.newest(key)
        if newest[0] is not None and newest[1] <= time:
            return newest
        if time < self.observed - HISTORY:
            return None, -1
        versions = self.versions.get(repr(key), {})
        at = max((at for at in versions if at <= time), default=-1)
        return (versions[at], at) if at >= 0 and versions[at] is not None else (None, -1)


@settings(deadline=None)  # each example runs several transactions, which are slow on a busy machine
@given(CHANGES)
def test_versions_are_found_by_key_and_time_across_transactions(
    batches: list[list[tuple[Any, int, int | None]]],
) -> None:
    model = Model()
    with stores() as opened:
        for batch in batches:
            with opened() as store:
                for key, time, value in batch:
                    assert store.put(key, value, time) is model.put(key, value, time)
                    for read, at, _ in batch:
                        assert store.get(read) == model.newest(read)
                        for instant in (at - 1, at, at + 1):
                            assert store.get_as_of(read, instant) == model.as_of(read, instant), (read, instant)


@given(CHANGES)
def test_the_versions_of_a_key_are_those_that_can_be_read(
    batches: list[list[tuple[Any, int, int | None]]],
) -> None:
    with stores() as opened:
        for batch in batches:
            with opened() as store:
                for key, time, value in batch:
                    store.put(key, value, time)
                for key, *_ in batch:
                    versions = store.versions(key)
                    ends = [None, *(begin for _, begin, _ in versions)]
                    assert [end for *_, end in versions] == ends[: len(versions)]  # each ends where the next starts
                    for value, begin, end in versions:
                        for instant in (begin, (begin if end is None else end) - 1, begin + 5):
                            if begin <= instant and (end is None or instant < end) and instant >= first_readable(store):
                                expected = (None, -1) if value is None else (value, begin)
                                assert store.get_as_of(key, instant) == expected, (key, instant)


def first_readable(store: VersionedStore) -> int:
    return store._older.observed - HISTORY


def test_a_version_exactly_at_the_limit_of_the_history_is_added() -> None:
    with stores() as opened, opened() as store:
        assert store.put("a", 1, 500_000) is PutResult.NEWEST
        assert store.put("b", 2, 500_000 - HISTORY) is PutResult.NEWEST
        assert store.put("b", 3, 500_000 - HISTORY - 1) is PutResult.TOO_OLD


def test_state_size_depends_on_the_history() -> None:
    """Over 100 times the history, with rows that change, rows that are deleted, and keys that occur once."""
    sizes: list[tuple[int, int]] = []
    with stores() as opened:
        for number in range(1_000):
            with opened() as store:
                time = number * HISTORY // 10
                store.put("busy", number, time)
                store.put(f"once{number}", number, time)
                store.put(f"once{number}", None, time + 1)
                store.flush()
                sizes.append((len(store), store.older_versions))
    assert sizes[-1][0] == 1
    assert sizes[-1][1] <= max(size for _, size in sizes[:50]) + 3
