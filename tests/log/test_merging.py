"""Small blobs are merged into large ones without a visible change for readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from millstream.log import EmbeddedLog, merging

if TYPE_CHECKING:
    from tests.log.conftest import Read, Send


def _sizes(log: EmbeddedLog, topic: str) -> list[int]:
    with log._catalog.get(topic).snapshot() as snapshot:
        return [span.records for span in snapshot.spans(0, 0)]


def test_adjacent_blobs_are_merged(log: EmbeddedLog, topic: str, send: Send, read: Read) -> None:
    for number in range(10):
        send(topic, f"k:{number}", times=[number])
    before = read(topic)
    log.clean(topic)
    assert _sizes(log, topic) == [10]
    assert read(topic) == before
    assert read(topic, start=3, end=5) == before[3:5]
    assert log.offset_at(topic, 0, 7) == 7


def test_the_last_blob_is_merged_with_later_ones(log: EmbeddedLog, topic: str, send: Send) -> None:
    for _ in range(3):
        for number in range(4):
            send(topic, str(number))
        log.clean(topic)
    assert _sizes(log, topic) == [12]


def test_a_full_blob_is_not_rewritten(
    log: EmbeddedLog, topic: str, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "ENOUGH_RECORDS", 5)
    for size in (1, 1, 4, 5, 6, 2, 3, 3):
        send(topic, *["x"] * size)
    log.clean(topic)
    assert _sizes(log, topic) == [2, 4, 5, 6, 5, 3]


def test_a_first_offset_inside_a_blob_is_kept(log: EmbeddedLog, topic: str, send: Send, read: Read) -> None:
    send(topic, *"abc")
    send(topic, *"def")
    log.delete_before(topic, 0, 2)
    log.clean(topic)
    assert read(topic) == [(2, "c"), (3, "d"), (4, "e"), (5, "f")]


def test_a_run_with_deleted_blobs_is_not_merged(log: EmbeddedLog, topic: str, send: Send, read: Read) -> None:
    for text in "abcd":
        send(topic, text)
    stored = log._catalog.get(topic)
    with stored.snapshot() as snapshot:
        run = list(snapshot.spans(0, 0))
    log.delete_before(topic, 0, 2)
    merging.merge_run(stored, 0, run)
    assert read(topic) == [(2, "c"), (3, "d")]
