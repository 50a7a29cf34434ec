from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import count

import pytest

from millstream.task import garbage
from millstream.task.garbage import infrequent_collection


@pytest.fixture(autouse=True)
def _threshold() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_the_threshold_is_raised_during_a_batch_and_restored_after_an_error() -> None:
    collection = infrequent_collection()
    collection.__enter__()
    assert gc.get_threshold()[0] > 100_000
    assert not collection.__exit__(ValueError, ValueError("in user code"), None)
    assert gc.get_threshold() == (700, 10, 10)


def test_two_overlapping_batches_restore_the_threshold() -> None:
    first, second = infrequent_collection(), infrequent_collection()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)


def test_a_collector_that_the_user_has_disabled_stays_disabled() -> None:
    gc.set_threshold(0)
    with infrequent_collection():
        assert gc.get_threshold()[0] == 0


def test_loaded_objects_are_frozen_and_later_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "_calls", count())
    gc.unfreeze()  # another test of this process may have frozen nearly everything
    before = gc.get_freeze_count()
    try:
        garbage.freeze_loaded_objects()
        loaded = gc.get_freeze_count()
        assert loaded > before + 1_000
        for _ in range(10):
            garbage.freeze_loaded_objects()
        at_last = gc.get_freeze_count()
        later = [[number] for number in range(5_000)]
        garbage.freeze_loaded_objects()
        assert gc.get_freeze_count() <= at_last, "it may only become less, by what other threads let go"
        assert sum(each is later[0] for each in gc.get_objects()) == 1, "the collector no longer looks at it"
    finally:
        gc.unfreeze()
