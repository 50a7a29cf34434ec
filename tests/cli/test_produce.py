from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Call, Fill

from millstream.broker import TopicConfig
from millstream.foundation.partitioning import partition_of
from millstream.log import EmbeddedLog
from millstream.records import Record

Stored = Callable[[str], list[Record]]


@pytest.fixture(autouse=True)
def topic(fill: Fill) -> None:
    fill("lines")


def pairs(records: list[Record]) -> list[tuple[bytes | None, bytes | None]]:
    return sorted(((record.key, record.value) for record in records), key=repr)


def test_lines_are_written_unchanged(call: Call, stored: Stored) -> None:
    produced = call("produce", "lines", input='hello\n\n  {"a": \xff}\nno end')
    assert (produced.exit_code, produced.stdout, produced.stderr) == (0, "", "wrote 4 records to lines\n")
    assert [record.value for record in stored("lines")] == [b"hello", b"", b'  {"a": \xc3\xbf}', b"no end"]
    assert {record.key for record in stored("lines")} == {None}


def test_bytes_that_are_not_text(call: Call, stored: Stored) -> None:
    assert call("produce", "lines", input=b"\xff\x00\n").exit_code == 0
    assert stored("lines")[0].value == b"\xff\x00"


def test_one_key_for_all_records(call: Call, stored: Stored) -> None:
    assert call("produce", "lines", "--key", "u17", input="a\nb\n").exit_code == 0
    assert pairs(stored("lines")) == [(b"u17", b"a"), (b"u17", b"b")]


def test_keys_have_the_partitions_of_kafka(call: Call, stored: Stored) -> None:
    lines = [f"user-{number}:a:{number}" for number in range(20)]
    assert call("produce", "lines", "--key-separator", ":", input="\n".join(lines)).exit_code == 0
    records = stored("lines")
    assert len(records) == 20
    assert all(record.partition == partition_of(record.key, 2) for record in records)
    assert {record.value for record in records} == {f"a:{number}".encode() for number in range(20)}


def test_a_null_marker_is_null(call: Call, stored: Stored) -> None:
    call("produce", "lines", "--key-separator", ":", "--null-marker", "", "--value", "json", input="a:\nb:1\n")
    assert pairs(stored("lines")) == [(b"a", None), (b"b", b"1")]


def test_a_line_that_is_not_json_is_an_error(call: Call, stored: Stored) -> None:
    produced = call("produce", "lines", "--value", "json", input='{"a": 1}\n[\n3\n')
    assert produced.exit_code == 1
    assert produced.stderr.startswith("wrote 1 record to lines\nerror: line 2 is not JSON: ")
    assert [record.value for record in stored("lines")] == [b'{"a": 1}']


def test_a_line_without_key_is_an_error(call: Call, stored: Stored) -> None:
    produced = call("produce", "lines", "--key-separator", "=", input="a=1\nb:2\n")
    assert produced.exit_code == 1
    assert "error: line 2 has no key: 'b:2'; separate key and value with '='" in produced.stderr
    assert pairs(stored("lines")) == [(b"a", b"1")]


def test_nothing_to_write(call: Call) -> None:
    produced = call("produce", "lines", input="")
    assert (produced.exit_code, produced.stderr) == (0, "wrote 0 records to lines\n")


def test_an_unknown_topic(call: Call) -> None:
    refused = call("produce", "linse", input="a\n")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: there is no topic 'linse'; did you mean 'lines'?")


def test_a_record_that_is_too_large(call: Call, data_dir: Path) -> None:
    with EmbeddedLog(data_dir) as log:
        log.create_topic("tiny", TopicConfig(max_record_bytes=10))
    refused = call("produce", "tiny", input="a" * 100)
    assert refused.exit_code == 1
    assert "error: a record of " in refused.stderr


@pytest.mark.parametrize(
    "arguments", [["--key", "a", "--key-separator", ":"], ["--key-separator", ""], ["--value", "x"]]
)
def test_invalid_options(call: Call, arguments: list[str]) -> None:
    assert call("produce", "lines", *arguments, input="a\n").exit_code == 2


def test_a_value_on_the_command_line_is_explained(call: Call, stored: Stored) -> None:
    refused = call("produce", "lines", "--value", '{"a": 1}')
    assert refused.exit_code == 2
    assert """echo '{"a": 1}' | millstream produce TOPIC""" in refused.stderr
    assert stored("lines") == []
