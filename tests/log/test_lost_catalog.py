"""Records are never removed because the catalog was lost or replaced."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from millstream.broker import Output, TopicConfig
from millstream.errors import DamagedError
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import open_environment
from millstream.log import EmbeddedLog
from millstream.log.catalog import META_DATABASES, TopicCatalog
from millstream.log.topic import Topic


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with EmbeddedLog(tmp_path) as log:
        for name in ("lines", "counts"):
            log.create_topic(name, TopicConfig(partitions=1))
        log.append([Output("lines", 0, block_of([None], [b"hello"], [0]))])
    return tmp_path


@contextmanager
def kept_records(directory: Path) -> Iterator[None]:
    """Check that the data file of the topic is the same after the block as before."""
    data = directory / "log" / "topics" / "lines" / "data.mdb"
    before = data.read_bytes()
    yield
    assert data.read_bytes() == before


def test_a_log_without_its_catalog_is_refused(directory: Path) -> None:
    shutil.rmtree(directory / "log" / "meta")
    with EmbeddedLog(directory) as log, kept_records(directory):
        for call in (log.topic_names, log.cluster_id, lambda: log.create_topic("lines", TopicConfig())):
            with pytest.raises(DamagedError, match=r"meta' has lost its topics, but .*; restore the directory 'log'"):
                call()
    assert not (directory / "log" / "meta").exists()


def test_an_empty_catalog_beside_topics_with_records_is_refused(directory: Path) -> None:
    shutil.rmtree(directory / "log" / "meta")
    open_environment(directory / "log" / "meta", META_DATABASES).close()
    with EmbeddedLog(directory) as log, kept_records(directory), pytest.raises(DamagedError, match="lost its topics"):
        log.topic_names()


def test_a_directory_that_the_catalog_does_not_have_is_neither_replaced_nor_removed(directory: Path) -> None:
    (directory / "log" / "topics" / "lines").rename(directory / "lines")
    with EmbeddedLog(directory) as log:
        log.delete_topic("lines")
    (directory / "lines").rename(directory / "log" / "topics" / "lines")
    with EmbeddedLog(directory) as log, kept_records(directory):
        with pytest.raises(DamagedError, match="has lost its topics"):
            log.create_topic("lines", TopicConfig())
        log.delete_topic("counts")


def test_deleting_a_topic_leaves_the_directory_of_another_topic_in_its_path(directory: Path) -> None:
    topics = directory / "log" / "topics"
    shutil.rmtree(topics / "counts")
    shutil.copytree(topics / "lines", topics / "counts")
    with EmbeddedLog(directory) as log, pytest.raises(DamagedError, match="has lost its topics"):
        log.delete_topic("counts")
    assert (topics / "counts" / "data.mdb").exists()


def test_the_directory_of_an_interrupted_creation_is_replaced(directory: Path) -> None:
    """A crash before the commit of the catalog leaves a directory without records."""
    Topic("new", "an-id", TopicConfig(), directory / "log" / "topics" / "new", sync=False).initialize()
    TopicCatalog(directory / "log", sync=False).close()
    with EmbeddedLog(directory) as log:
        log.create_topic("new", TopicConfig())
        assert log.append([Output("new", 0, block_of([None], [b"x"], [0]))]) == [0]
