"""The power is cut at random times: acknowledged records survive, and results equal the oracle."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.crash.power import Disk, DiskUnavailableError
from tests.crash.trials import Mode, Trials, trial_seed

from millstream.log import EmbeddedLog

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    try:
        disk = Disk(tmp_path)
    except DiskUnavailableError as error:
        pytest.skip(f"no disk whose power can be cut: {error}")
    with disk:
        yield disk


def test_unsynced_data_is_lost(disk: Disk) -> None:
    """Otherwise the trials would prove nothing."""
    synced, unsynced = disk.path / "synced", disk.path / "unsynced"
    unsynced.write_bytes(b"x" * 10_000)
    with synced.open("wb") as file:
        file.write(b"y" * 10_000)
        file.flush()
        os.fsync(file.fileno())
    disk.take_snapshot()
    disk.restore_snapshot()
    assert synced.read_bytes() == b"y" * 10_000
    assert not unsynced.exists() or unsynced.read_bytes() != b"x" * 10_000


@pytest.mark.parametrize("mode", ["light", "behind"])
def test_the_power_is_cut_at_random_times(disk: Disk, mode: Mode) -> None:
    trials = Trials(disk.path, EmbeddedLog(disk.path), trial_seed(), mode)
    for _ in range(int(os.environ.get("MILLSTREAM_TRIALS", "3"))):
        trials.cut_power_at_random(disk, 2.0)
    result = trials.result()
    assert result.is_correct, result.notes
    assert result.records > 0
