"""The versioned store against a plain model, and that it grows with what is kept, not with what has passed."""

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
from millstream.state.versioned import Put, VersionedStore

HISTORY = 100_000
KEYS = st.sampled_from(["a", "ab", "k" * 600, 1, ("t", 1)])
TIMES = st.integers(0, 400_000) | st.sampled_from([0, 50_000, 100_000, 150_000, 200_000])
CHANGES = st.lists(st.lists(st.tuples(KEYS, TIMES, st.none() | st.integers(0, 9)), max_size=8), max_size=8)


@contextmanager
def stores() -> Iterator[Any]:
    """Give a function that opens the store in a transaction of its own."""
    with TemporaryDirectory() as directory:
        place = open_environment(Path(directory) / "e", ("newest", "older"), sync=False)

        @contextmanager
        def opened() -> Iterator[VersionedStore]:
            with place.write() as txn:
                store = VersionedStore(txn, place.databases["newest"], place.databases["older"], OBJECT_CODEC, HISTORY)
                yield store
                store.flush()

        yield opened
        place.close()


class Model:
    """All versions that were ever taken, and the rules read off the documentation."""

    def __init__(self) -> None:
        self.versions: dict[str, dict[int, int | None]] = {}
        self.observed = -1

    def put(self, key: Any, value: int | None, time: int) -> Put:
        if time < self.observed - HISTORY:
            return Put.TOO_OLD
        self.observed = max(self.observed, time)
        own = self.versions.setdefault(repr(key), {})
        newest = max(own, default=-1)
        own[time] = value
        return Put.NEWEST if time >= newest else Put.OLDER

    def newest(self, key: Any) -> tuple[Any, int]:
        own = self.versions.get(repr(key), {})
        at = max(own, default=-1)
        return (own[at], at) if own and own[at] is not None else (None, -1)

    def as_of(self, key: Any, time: int) -> tuple[Any, int]:
        newest = self.newest(key)
        if newest[0] is not None and newest[1] <= time:
            return newest
        if time < self.observed - HISTORY:
            return None, -1
        own = self.versions.get(repr(key), {})
        at = max((at for at in own if at <= time), default=-1)
        return (own[at], at) if at >= 0 and own[at] is not None else (None, -1)


@settings(deadline=None)  # each example is several transactions, which take long on a busy machine
@given(CHANGES)
def test_versions_are_found_by_key_and_time_over_many_transactions(
    batches: list[list[tuple[Any, int, int | None]]],
) -> None:
    model = Model()
    with stores() as opened:
        for batch in batches:
            with opened() as store:
                for key, time, value in batch:
                    assert store.put(key, value, time) is model.put(key, value, time)
                    for asked, at, _ in batch:
                        assert store.get(asked) == model.newest(asked)
                        for moment in (at - 1, at, at + 1):
                            assert store.get_as_of(asked, moment) == model.as_of(asked, moment), (asked, moment)


@given(CHANGES)
def test_all_versions_of_a_key_are_those_that_can_be_asked_for(
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
                    assert [end for *_, end in versions] == ends[: len(versions)]  # each ends where the next begins
                    for value, begin, end in versions:
                        for moment in (begin, (begin if end is None else end) - 1, begin + 5):
                            if begin <= moment and (end is None or moment < end) and moment >= first_known(store):
                                expected = (None, -1) if value is None else (value, begin)
                                assert store.get_as_of(key, moment) == expected, (key, moment)


def first_known(store: VersionedStore) -> int:
    return store._older.observed - HISTORY


def test_a_version_at_the_very_edge_of_the_history_is_taken() -> None:
    with stores() as opened, opened() as store:
        assert store.put("a", 1, 500_000) is Put.NEWEST
        assert store.put("b", 2, 500_000 - HISTORY) is Put.NEWEST
        assert store.put("b", 3, 500_000 - HISTORY - 1) is Put.TOO_OLD


def test_state_grows_with_what_is_kept() -> None:
    """Over 100 times the history, with rows that change, rows that are deleted, and keys that come once."""
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
