"""Records of a source that cannot be written: the error policies apply, and each becomes one dead letter."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from millstream.admin.dead_letter_replay import replay_remaining
from millstream.broker import TopicConfig
from millstream.connect.connect_file import read_connect_file
from millstream.connect.source_journal import SourceJournal
from millstream.connect.worker import run_connect_file
from millstream.errors import ConnectorError
from millstream.foundation.paths import source_dir
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.records import TopicPartition
from millstream.testing.connectors import MemorySource
from millstream.testing.connectors.bench import APP, Bench
from millstream.views.dead_letters import read_dead_letters
from millstream.views.records import read_rounds

TOPIC = "shop.orders"
LONG_VALUE = "x" * 1_050_000


def source_with_a_long_record() -> MemorySource:
    source = MemorySource(TOPIC, partitions=2, patience=0.01, most=2)
    for key, value in (("a", 1), ("b", LONG_VALUE), ("c", 3)):
        source.put(TOPIC, key, value)
    return source


def stored(bench: Bench) -> list[Any]:
    return sorted(msgspec.json.decode(record.value or b"") for record in bench.records(TOPIC))


def test_with_the_policy_to_fail_nothing_is_committed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, on_error="fail")
    with pytest.raises(ConnectorError, match="a record of 1050003 bytes is too large for topic"):
        bench.run_source(source_with_a_long_record())
    assert SourceJournal(source_dir(tmp_path, APP, "source")).read().position is None
    assert (stored(bench), bench.dead_letters()) == ([], [])
    close_environments(tmp_path)


def test_with_the_policy_to_fail_and_a_named_topic_there_is_one_dead_letter(tmp_path: Path) -> None:
    bench = Bench(tmp_path, on_error="fail", dead_letter_topic=f"{APP}.dead-letters")
    for _ in range(2):
        with pytest.raises(ConnectorError, match="too large"):
            bench.run_source(source_with_a_long_record())
    assert [letter.topic for letter in bench.dead_letters()] == [TOPIC]
    close_environments(tmp_path)


def test_with_the_policy_to_skip_the_others_arrive(tmp_path: Path) -> None:
    bench = Bench(tmp_path, on_error="skip")
    assert bench.run_source(source_with_a_long_record())
    assert (stored(bench), bench.dead_letters()) == ([1, 3], [])


def test_a_record_that_the_topic_refuses_is_one_dead_letter_wherever_the_process_dies(tmp_path: Path) -> None:
    died = 0
    for die_at in range(1, 100):
        bench, source = Bench(tmp_path / str(die_at)), source_with_a_long_record()
        has_ended = bench.run_source(source, die_at=die_at)
        died += not has_ended
        assert bench.run_source(source)
        assert stored(bench) == [1, 3], f"died at step {die_at}"
        [letter] = bench.dead_letters()
        assert (letter.topic, letter.node, letter.record.key) == (TOPIC, "source", b"b")
        assert "a record of 1050003 bytes is too large" in letter.message
        assert letter.record.value is None, "the topic of dead letters has the same limit"
        if has_ended:
            break
    assert died > 5


FILE = """
name = "hooks"
[config]
durability = "os"
{policy}
[sources.lines]
kind = "follow-files"
path = "{directory}/in.jsonl"
topic = "orders"
key = "id"
transform = [{{ mask = ["email"] }}]
"""


def run_file(directory: Path, policy: str = "") -> Path:
    (directory / "in.jsonl").write_text(
        '{"id": 1, "email": "ann@example.org"}\nnot JSON, and ann@example.org\n{"id": 2}\n'
    )
    (directory / "hooks.toml").write_text(FILE.format(directory=directory, policy=policy))
    file, data = read_connect_file(directory / "hooks.toml"), directory / "data"
    run_connect_file(file, file.settings(data, None), "caught-up", threading.Event())
    close_environments(data)
    return data


def records_of(log: EmbeddedLog, topic: str) -> list[bytes]:
    starts = {TopicPartition(topic, number): 0 for number in range(log.topic(topic).partitions)}
    return sorted(
        record.value or b"" for records in read_rounds(log, starts, follow=False, grow=False) for record in records
    )


def test_a_value_that_a_transform_cannot_read_is_a_dead_letter_that_no_replay_writes_without_it(tmp_path: Path) -> None:
    with EmbeddedLog(run_file(tmp_path), durability="os") as log:
        assert len(records_of(log, "orders")) == 2
        [letter] = read_dead_letters(log, "hooks.dead-letters")
        assert (letter.topic, letter.node) == ("orders", "lines")
        assert letter.record.value == b"not JSON, and ann@example.org"
        *_, replay = replay_remaining(log, "hooks.dead-letters")
        assert (replay.sent, replay.kept) == ({}, {"orders": 1})
        assert not any(b"ann@example.org" in value for value in records_of(log, "orders"))
    close_environments(tmp_path)


def test_a_value_that_a_transform_cannot_read_stops_the_source_if_the_policy_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match=r"source 'lines' cannot write a record to 'orders'.*on_decode_error"):
        run_file(tmp_path, 'on_decode_error = "fail"')
    close_environments(tmp_path)


def test_a_dead_letter_of_a_topic_with_a_smaller_limit_can_be_replayed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with EmbeddedLog(tmp_path, durability="os") as log:
        log.create_topic(TOPIC, TopicConfig(partitions=2, max_record_bytes=2000))
    source = MemorySource(TOPIC, partitions=2, patience=0.01)
    source.put(TOPIC, "k", "x" * 3000)
    assert bench.run_source(source)
    with EmbeddedLog(tmp_path, durability="os") as log:
        log.alter_topic(TOPIC, max_record_bytes=10_000)
        *_, replay = replay_remaining(log, f"{APP}.dead-letters")
        assert replay.sent == {TOPIC: 1}
        assert records_of(log, TOPIC) == [msgspec.json.encode("x" * 3000)]
    close_environments(tmp_path)
