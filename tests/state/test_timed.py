"""The timed store behaves like a plain model, and its size depends on the retention, not on all past entries."""

from __future__ import annotations

import struct
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream import App, session, sliding, tumbling
from millstream.foundation.key_columns import hashable_keys
from millstream.foundation.object_codec import OBJECT_CODEC
from millstream.foundation.storage import open_environment
from millstream.state.timed import TimedStore
from millstream.state.windows import WindowStore
from millstream.testing import TestDriver
from millstream.windows import Windows

KEYS = st.sampled_from(["a", "ab", "b", "k" * 600, 1, 1.0, b"a", ("t", 1)])
TIMES = st.integers(0, 500_000)
CHANGES = st.lists(st.lists(st.tuples(KEYS, TIMES, st.none() | st.integers(0, 9)), max_size=8), max_size=8)


@pytest.mark.parametrize("kind", [TimedStore, WindowStore])
@settings(deadline=None)  # each example runs several transactions, which are slow on a busy machine
@given(CHANGES)
def test_entries_are_found_by_key_and_time_across_transactions(
    kind: type[TimedStore], batches: list[list[tuple[Any, int, int | None]]]
) -> None:
    model: dict[tuple[str, int], int | None] = {}
    with TemporaryDirectory() as directory:
        environment = open_environment(Path(directory) / "e", ("timed",), sync=False)
        for batch in batches:
            with environment.write() as txn:
                store = kind(
                    txn, environment.databases["timed"], OBJECT_CODEC, struct.Struct(">Q"), 10_000_000, indexed=True
                )
                if isinstance(store, WindowStore):  # read half of the times in one pass, the others one at a time
                    for time in {time for _, time, _ in batch[::2]}:
                        store.window(time).prefetch(hashable_keys([key for key, _, _ in batch]))
                for key, time, value in batch:
                    entry = store.entry(key, (time,))
                    entry.value, entry.timestamp = value, time
                    store.mark(entry)
                    model[repr(key), time] = value
                kept = {key_and_time: value for key_and_time, value in model.items() if value is not None}
                for key, time, _ in batch:
                    near = {entry.position[0]: entry.value for entry in store.between(key, time - 1000, time + 1000)}
                    assert near == {
                        at: value for (k, at), value in kept.items() if k == repr(key) and abs(at - time) <= 1000
                    }
                due = [(entry.position[0], repr(entry.key)) for entry in store.due(0, 250_000)]
                assert sorted(due) == sorted((at, key) for (key, at) in kept if at <= 250_000)
                assert [at for at, _ in due] == sorted(at for at, _ in due)
                store.flush()
                store.release()
                for key, time, _ in batch:
                    assert store.entry(key, (time,)).value == model[repr(key), time]
        environment.close()


@pytest.mark.parametrize("kind", [TimedStore, WindowStore])
def test_entries_that_expire_within_a_batch_are_not_written(kind: type[TimedStore], tmp_path: Path) -> None:
    environment = open_environment(tmp_path / "e", ("timed",), sync=False)

    def store_of(txn: Any) -> TimedStore:
        return kind(txn, environment.databases["timed"], OBJECT_CODEC, struct.Struct(">Q"), 100, skip_expired=True)

    for times in ((0, 50), (60, 200, 90, 100, 101)):
        with environment.write() as txn:
            store = store_of(txn)
            for time in times:
                entry = store.entry("k", (time,))
                entry.value = 1
                store.mark(entry)
            store.flush()
    with environment.write() as txn:
        assert [entry.position[0] for entry in store_of(txn).all()] == [0, 50, 100, 101, 200]  # their segment is kept
    environment.close()


def store_sizes(windows: Windows, *, final: bool) -> tuple[int, int]:
    """Return the number of entries in a store after 20 and after 100 times its retention."""
    app = App("test")
    grouped = app.stream("in", value=str).group_by_key().windowed_by(windows)
    (grouped.emit("final") if final else grouped).count(name="n")
    with TestDriver(app) as driver:
        sizes = []
        for number in range(500):
            driver.topic("in").pipe("x", key=f"k{number % 3}", timestamp=number * 24_000)
            if number in (99, 499):
                sizes.append(driver.reports[0].rows["n"])
        return sizes[0], sizes[1]


@pytest.mark.slow
def test_state_size_depends_on_the_retention() -> None:
    for windows in (tumbling("60 s", grace="60 s"), sliding("40 s", grace="40 s"), session(gap="60 s", grace="60 s")):
        for final in (False, True):
            early, late = store_sizes(windows, final=final)
            assert 0 < late <= early + 6, (windows, final, early, late)
