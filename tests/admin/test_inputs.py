"""An app's positions belong to one cluster and to topics with certain ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.admin.inputs import bind_inputs, check_cluster
from millstream.batch.batch import Progress
from millstream.batch.journal import Journal
from millstream.broker import TopicConfig
from millstream.errors import StateError
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    yield Journal(tmp_path / "journal", durable=False)
    close_environments(tmp_path)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "first", durability="os") as log:
        log.create_topic("lines", TopicConfig(partitions=1))
        yield log


def test_another_log_is_refused_with_both_names_before_anything_is_read(
    journal: Journal, log: EmbeddedLog, tmp_path: Path
) -> None:
    check_cluster("words", journal, log)
    bind_inputs("words", journal, log, ["lines"])
    check_cluster("words", journal, log)
    with EmbeddedLog(tmp_path / "second", durability="os") as other:
        with pytest.raises(StateError) as refusal:
            check_cluster("words", journal, other)
        assert log.url in str(refusal.value)
        assert other.url in str(refusal.value)
        assert "another data_dir or app id" in str(refusal.value)


def test_a_log_keeps_its_id_when_its_directory_moves(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "here", durability="os") as log:
        before = log.cluster_id()
    (tmp_path / "here").rename(tmp_path / "there")
    with EmbeddedLog(tmp_path / "there", durability="os") as log:
        assert log.cluster_id() == before


def test_a_topic_that_was_created_again_is_refused_once_it_was_read(journal: Journal, log: EmbeddedLog) -> None:
    bind_inputs("words", journal, log, ["lines"])
    log.delete_topic("lines")
    log.create_topic("lines", TopicConfig(partitions=1))
    bind_inputs("words", journal, log, ["lines"])  # nothing was read yet, so no offset refers to the old topic
    journal.write(Progress(done=1, positions={"lines/0": 100}), None)
    log.delete_topic("lines")
    log.create_topic("lines", TopicConfig(partitions=1))
    with pytest.raises(StateError, match="'lines' was deleted and created again after app 'words' had read it"):
        bind_inputs("words", journal, log, ["lines"])
