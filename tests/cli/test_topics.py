import json
from pathlib import Path

import pytest
from tests.cli.conftest import Call, Fill

from millstream.cli.option_types import parse_size


def test_a_topic_is_created_and_listed(call: Call) -> None:
    created = call("topics", "create", "lines", "--partitions", "2", "--retention", "7 d")
    assert (created.exit_code, created.stderr) == (0, "created lines with 2 partitions\n")
    listed = call("topics", "list")
    assert listed.exit_code == 0
    assert listed.stdout.splitlines() == [
        "TOPIC  PARTITIONS  RECORDS  BYTES  RETENTION",
        "lines           2        0      0  7 d",
    ]


def test_a_list_as_json(call: Call, fill: Fill) -> None:
    fill("lines", (None, b"a", 1), (None, b"b", 2))
    listed = json.loads(call("topics", "list", "--json").stdout)
    assert [(topic["topic"], topic["partitions"], topic["records"], topic["compact"]) for topic in listed] == [
        ("lines", 2, 2, False)
    ]


def test_no_topics_yet(call: Call, data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700)
    listed = call("topics", "list")
    assert (listed.exit_code, listed.stdout, listed.stderr) == (0, "", "there are no topics yet\n")


def test_a_topic_is_created_once(call: Call) -> None:
    call("topics", "create", "lines")
    again = call("topics", "create", "lines")
    assert again.exit_code == 1
    assert again.stderr == "error: topic 'lines' already exists; choose another name\n"


@pytest.mark.parametrize(
    ("option", "value"), [("--partitions", "0"), ("--retention", "soon"), ("--retention-bytes", "much")]
)
def test_invalid_settings(call: Call, option: str, value: str, data_dir: Path) -> None:
    refused = call("topics", "create", "lines", option, value)
    assert refused.exit_code == 2
    assert f"invalid value for '{option}'" in refused.stderr
    assert not data_dir.exists()


def test_a_setting_that_cannot_be_unlimited(call: Call) -> None:
    assert call("topics", "create", "lines", "--max-record-bytes", "none").exit_code == 2


def test_a_name_that_is_not_allowed(call: Call) -> None:
    refused = call("topics", "create", "a/\x1b[31mb")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: topic name 'a/\\x1b[31mb' is not allowed")


def test_a_description(call: Call, fill: Fill) -> None:
    fill("lines", (None, b"a", 1), partition=1)
    described = call("topics", "describe", "lines")
    assert described.exit_code == 0
    lines = described.stdout.splitlines()
    assert lines[0].startswith("lines: partitions 2, timestamps create, retention_ms none")
    assert [line.split()[:3] for line in lines[1:]] == [["PARTITION", "BEGIN", "END"], ["0", "0", "0"], ["1", "0", "1"]]
    assert json.loads(call("topics", "describe", "lines", "--json").stdout)[0]["offsets"][1] == {"begin": 0, "end": 1}


def test_an_unknown_topic(call: Call, fill: Fill) -> None:
    fill("lines")
    described = call("topics", "describe", "linse")
    assert (described.exit_code, described.stdout) == (1, "")
    assert described.stderr.startswith("error: there is no topic 'linse'; did you mean 'lines'?")


def test_settings_are_changed(call: Call) -> None:
    call("topics", "create", "lines", "--partitions", "2", "--retention", "7 d")
    changed = call("topics", "alter", "lines", "--retention", "none", "--compact", "--partitions", "4")
    assert changed.exit_code == 0
    assert changed.stderr == "changed lines: partitions 4, retention_ms none, compact yes\n"
    config = json.loads(call("topics", "describe", "lines", "--json").stdout)[0]["config"]
    assert (config["partitions"], config["retention_ms"], config["compact"]) == (4, None, True)


def test_partitions_do_not_shrink(call: Call) -> None:
    call("topics", "create", "lines", "--partitions", "2")
    refused = call("topics", "alter", "lines", "--partitions", "1")
    assert refused.exit_code == 1
    assert "cannot shrink to 1" in refused.stderr


def test_a_change_without_settings(call: Call) -> None:
    assert call("topics", "alter", "lines").exit_code == 2


@pytest.mark.parametrize(("arguments", "is_deleted"), [(["--yes"], True), (["--dry-run"], False)])
def test_deletion_shows_what_would_be_lost(call: Call, fill: Fill, arguments: list[str], is_deleted: bool) -> None:
    fill("lines", (None, b"a", 1))
    deleted = call("topics", "delete", "lines", *arguments)
    assert deleted.exit_code == 0
    assert deleted.stderr.startswith("would delete lines: 1 record, ")
    assert ("deleted lines" in deleted.stderr) == is_deleted
    assert ("lines" in call("topics", "list").stdout) == (not is_deleted)


@pytest.mark.parametrize(("answer", "exit_code", "is_deleted"), [("y\n", 0, True), ("n\n", 0, False), ("", 1, False)])
def test_deletion_asks_for_confirmation(call: Call, fill: Fill, answer: str, exit_code: int, is_deleted: bool) -> None:
    fill("lines")
    assert call("topics", "delete", "lines", input=answer).exit_code == exit_code
    assert ("lines" in call("topics", "list").stdout) == (not is_deleted)


def test_nothing_is_deleted_if_one_name_is_wrong(call: Call, fill: Fill) -> None:
    fill("lines")
    assert call("topics", "delete", "lines", "other", "--yes").exit_code == 1
    assert "lines" in call("topics", "list").stdout


@pytest.mark.parametrize(("text", "size"), [("7", 7), ("2 kB", 2000), ("1MiB", 1 << 20), ("1g", 10**9)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size
