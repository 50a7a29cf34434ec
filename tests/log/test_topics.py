"""Topics are created, changed and deleted; a process that has a deleted topic open notices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from millstream.broker import TopicConfig
from millstream.errors import DefinitionError, InvalidNameError, TopicExistsError, UnknownTopicError
from millstream.log import EmbeddedLog

if TYPE_CHECKING:
    from tests.log.conftest import Read, Send


def test_a_topic_is_described_as_it_was_created(log: EmbeddedLog) -> None:
    config = TopicConfig(partitions=3, retention_ms=1000, compact=True)
    log.create_topic("rides", config)
    info = log.topic("rides")
    assert (info.name, info.config, info.partitions, info.bytes) == ("rides", config, 3, (0, 0, 0))
    assert [(offsets.begin, offsets.end) for offsets in info.offsets] == [(0, 0)] * 3


def test_names_are_sorted(log: EmbeddedLog) -> None:
    for name in ("b", "c", "a"):
        log.create_topic(name, TopicConfig())
    assert log.topic_names() == ["a", "b", "c"]


def test_a_topic_cannot_be_created_twice(log: EmbeddedLog, topic: str) -> None:
    with pytest.raises(TopicExistsError, match="topic 'lines' already exists"):
        log.create_topic(topic, TopicConfig())


def test_the_error_for_an_unknown_topic_suggests_a_similar_name(log: EmbeddedLog, topic: str) -> None:
    with pytest.raises(UnknownTopicError, match=r"no topic 'line'.*'lines'.*millstream topics create line"):
        log.offsets("line")


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "", "x" * 201, "a\0b"])
def test_names_are_checked_where_they_become_paths(log: EmbeddedLog, name: str, tmp_path: Path) -> None:
    for call in (log.offsets, log.delete_topic, lambda bad: log.create_topic(bad, TopicConfig())):
        with pytest.raises(InvalidNameError):
            call(name)
    assert not list(tmp_path.glob("**/up"))


def test_partitions_can_grow(log: EmbeddedLog, topic: str, send: Send, read: Read) -> None:
    send(topic, "a")
    assert log.alter_topic(topic, partitions=4).partitions == 4
    send(topic, "b", partition=3)
    assert read(topic) == [(0, "a")]
    assert read(topic, 3) == [(0, "b")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"partitions": 1}, "has 2 partitions and cannot shrink to 1"),
        ({"color": "red"}, "unknown topic setting 'color'"),
        ({"retention_ms": -5}, "retention_ms is -5"),
        ({"compact": "yes"}, "cannot be changed"),
    ],
)
def test_invalid_changes_are_refused(log: EmbeddedLog, topic: str, changes: dict[str, object], message: str) -> None:
    before = log.topic(topic)
    with pytest.raises(DefinitionError, match=message):
        log.alter_topic(topic, **changes)
    assert log.topic(topic) == before


def test_a_deleted_topic_loses_its_directory_and_can_be_created_again(
    log: EmbeddedLog, topic: str, send: Send, tmp_path: Path
) -> None:
    send(topic, "a")
    log.delete_topic(topic)
    assert log.topic_names() == []
    assert list((tmp_path / "log" / "topics").iterdir()) == []
    with pytest.raises(UnknownTopicError):
        log.offsets(topic)
    log.create_topic(topic, TopicConfig(partitions=1))
    assert [offsets.end for offsets in log.offsets(topic)] == [0]


def test_a_topic_replaced_by_another_process_is_noticed(
    log: EmbeddedLog, topic: str, send: Send, read: Read, tmp_path: Path
) -> None:
    send(topic, "old")
    _run_in_another_process(tmp_path, "log.delete_topic('lines'); log.create_topic('lines', TopicConfig(partitions=1))")
    assert [offsets.end for offsets in log.offsets(topic)] == [0]
    send(topic, "new")
    assert read(topic) == [(0, "new")]


def test_an_append_to_a_topic_deleted_in_the_meantime_is_refused(log: EmbeddedLog, topic: str, tmp_path: Path) -> None:
    stored = log._catalog.get(topic)
    _run_in_another_process(tmp_path, "log.delete_topic('lines')")
    with pytest.raises(UnknownTopicError, match="has been deleted"):
        stored.update(lambda snapshot: None)


def test_a_topic_half_deleted_by_a_crash_can_be_created_again(log: EmbeddedLog, topic: str, tmp_path: Path) -> None:
    log._catalog._remove_directory(topic, None)  # the process dies before the catalog deletes it
    with pytest.raises(UnknownTopicError):
        log.offsets(topic)
    log.create_topic(topic, TopicConfig(partitions=1))
    assert len(log.offsets(topic)) == 1


def test_durability_is_checked(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="durability 'none'"):
        EmbeddedLog(tmp_path, durability="none")  # type: ignore[arg-type]


def test_closing_one_of_two_logs_on_a_directory_leaves_the_other_open(
    log: EmbeddedLog, topic: str, tmp_path: Path
) -> None:
    other = EmbeddedLog(tmp_path)
    assert other.topic_names() == [topic]
    other.close()
    assert log.topic_names() == [topic]


def _run_in_another_process(directory: Path, code: str) -> None:
    program = (
        "from pathlib import Path; from millstream.broker import TopicConfig; from millstream.log import EmbeddedLog\n"
        f"with EmbeddedLog(Path({str(directory)!r})) as log: {code}"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_topic_that_was_created_meanwhile_is_not_suggested_for_itself(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("lines", TopicConfig(partitions=1))
        error = log._catalog._unknown_topic("lines")
    assert "did you mean" not in str(error)
