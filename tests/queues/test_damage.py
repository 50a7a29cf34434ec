"""Damage to the state of share groups is an error that names the file, and the doctor finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.admin.doctor import examine
from millstream.broker import TopicConfig
from millstream.errors import DamagedError
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.queues.share_consumer import ShareConsumer


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("jobs", TopicConfig(partitions=1))
        ShareConsumer(log, "mailers", topics="jobs").close()
    close_environments(tmp_path)
    return tmp_path


def test_the_doctor_examines_share_groups(directory: Path) -> None:
    parts = {finding.kind: finding.problem for finding in examine(directory)}
    assert parts["share groups"] is None


def test_damaged_state_is_found(directory: Path) -> None:
    file = directory / "log" / "shares" / "state" / "data.mdb"
    file.write_bytes(file.read_bytes()[:8192])
    with EmbeddedLog(directory) as log, pytest.raises(DamagedError, match="shares/state"):
        log.share_group("mailers")
    close_environments(directory)
    assert {finding.kind: finding.problem for finding in examine(directory)}["share groups"] is not None
