"""The power is cut at random moments: what was acknowledged is there, and all laws hold."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.crash.arena import Arena, Mode, seeded
from tests.crash.power import Disk, NoDiskError

from millstream.log import EmbeddedLog

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    try:
        disk = Disk(tmp_path)
    except NoDiskError as error:
        pytest.skip(f"no disk whose power can be cut: {error}")
    with disk:
        yield disk


def test_what_was_not_synced_is_gone(disk: Disk) -> None:
    """Otherwise the trials below would prove nothing."""
    synced, forgotten = disk.place / "synced", disk.place / "forgotten"
    forgotten.write_bytes(b"x" * 10_000)
    with synced.open("wb") as file:
        file.write(b"y" * 10_000)
        file.flush()
        os.fsync(file.fileno())
    disk.keep_moment()
    disk.come_back()
    assert synced.read_bytes() == b"y" * 10_000
    assert not forgotten.exists() or forgotten.read_bytes() != b"x" * 10_000


@pytest.mark.parametrize("mode", ["light", "behind"])
def test_the_power_is_cut_at_random_moments(disk: Disk, mode: Mode) -> None:
    arena = Arena(disk.place, EmbeddedLog(disk.place), seeded(), mode)
    for _ in range(int(os.environ.get("MILLSTREAM_TRIALS", "3"))):
        arena.cut_power_at_random(disk, 2.0)
    verdict = arena.verdict()
    assert verdict.is_good, verdict.notes
    assert verdict.records > 0
