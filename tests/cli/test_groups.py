import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.cli.conftest import Call, Fill

from millstream.foundation.paths import journal_dir
from millstream.log import EmbeddedLog
from millstream.records import TopicPartition

NOON = int(datetime(2025, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)


@pytest.fixture
def group(fill: Fill, data_dir: Path) -> str:
    """Return a group that has read one of three records in partition 0, and none in partition 1."""
    fill("orders", (None, b"a", NOON - 1), (None, b"b", NOON), (None, b"c", NOON + 1))
    fill("orders", (None, b"d", NOON), partition=1)
    commit(data_dir, {0: 1, 1: 0})
    return "audit"


def commit(data_dir: Path, offsets: dict[int, int]) -> None:
    with EmbeddedLog(data_dir) as log:
        log.commit("audit", {TopicPartition("orders", partition): at for partition, at in offsets.items()})


def committed(data_dir: Path) -> list[int]:
    with EmbeddedLog(data_dir) as log:
        return [at for _, at in sorted(log.committed("audit").items())]


def test_groups_are_listed_with_their_lag(call: Call, group: str) -> None:
    listed = call("groups", "list")
    assert listed.exit_code == 0
    assert [line.split() for line in listed.stdout.splitlines()] == [
        ["GROUP", "MEMBERS", "TOPICS", "LAG"],
        ["audit", "0", "orders", "3"],
    ]
    assert json.loads(call("groups", "list", "--json").stdout) == [
        {"group": "audit", "members": 0, "topics": "orders", "lag": 3}
    ]


def test_no_groups_yet(call: Call, fill: Fill) -> None:
    fill("orders")
    assert call("groups", "list").stderr == "there are no groups yet\n"
    assert json.loads(call("groups", "list", "--json").stdout) == []


def test_a_description_shows_the_lag_of_partitions(call: Call, group: str) -> None:
    described = call("groups", "describe", group)
    assert described.exit_code == 0
    assert [line.split() for line in described.stdout.splitlines()] == [
        ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"],
        ["orders", "0", "1", "3", "2", "-"],
        ["orders", "1", "0", "1", "1", "-"],
    ]
    partitions = json.loads(call("groups", "describe", group, "--json").stdout)["partitions"]
    assert [partition["lag"] for partition in partitions] == [2, 1]


def test_partitions_without_a_commit_count_from_their_first_record(call: Call, fill: Fill, data_dir: Path) -> None:
    fill("orders", (None, b"a", NOON), (None, b"b", NOON))
    fill("orders", *[(None, b"c", NOON)] * 3, partition=1)
    with EmbeddedLog(data_dir) as log:
        log.delete_before("orders", 1, 1)
    commit(data_dir, {0: 1})
    assert call("groups", "list").stdout.split()[-2:] == ["orders", "3"]
    described = call("groups", "describe", "audit").stdout.splitlines()
    assert [line.split() for line in described[1:]] == [
        ["orders", "0", "1", "2", "1", "-"],
        ["orders", "1", "-", "3", "2", "-"],
    ]


def test_a_topic_that_is_only_subscribed_counts(call: Call, fill: Fill, data_dir: Path) -> None:
    fill("orders", (None, b"a", NOON))
    with EmbeddedLog(data_dir) as log:
        member = log.join_group("audit", ["orders"])
        member.refresh(lambda lost: None)
        assert call("groups", "list").stdout.split()[-3:] == ["1", "orders", "1"]
        member.leave()


def test_a_description_shows_members(call: Call, group: str, data_dir: Path) -> None:
    with EmbeddedLog(data_dir) as log:
        member = log.join_group(group, ["orders"])
        member.refresh(lambda lost: None)
        described = call("groups", "describe", group)
        assert f"member {member.id}" in described.stdout
        assert described.stdout.splitlines()[-1].endswith(member.id)
        refused = call("groups", "reset", group, "--to", "earliest", "--execute")
        assert refused.exit_code == 1
        assert "live members" in refused.stderr
        member.leave()


@pytest.mark.parametrize("arguments", [["describe", "unknown"], ["delete", "unknown", "--yes"]])
def test_an_unknown_group(call: Call, group: str, arguments: list[str]) -> None:
    refused = call("groups", *arguments)
    assert refused.exit_code == 1
    assert refused.stderr == "error: there is no group 'unknown'; see: millstream groups list\n"


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("earliest", [0, 0]),
        ("latest", [3, 1]),
        ("2", [2, 1]),
        ("2025-01-31T12:00:00Z", [1, 0]),
        ("2030-01-01T00:00:00Z", [3, 1]),
        ("1 min", [3, 1]),
    ],
)
def test_a_group_is_reset(call: Call, group: str, data_dir: Path, to: str, expected: list[int]) -> None:
    shown = call("groups", "reset", group, "--to", to)
    assert shown.exit_code == 0
    assert shown.stderr == "nothing was changed; add --execute to make the change\n"
    assert [int(line.split()[-1]) for line in shown.stdout.splitlines()[1:]] == expected
    assert committed(data_dir) == [1, 0]
    done = call("groups", "reset", group, "--to", to, "--execute", "--json")
    assert (done.exit_code, json.loads(done.stdout)["executed"]) == (0, True)
    assert committed(data_dir) == expected


def test_an_invalid_position(call: Call, group: str) -> None:
    refused = call("groups", "reset", group, "--to", "somewhere")
    assert refused.exit_code == 1
    assert "'somewhere' is not a valid position in a topic" in refused.stderr


def test_a_new_group_needs_a_topic(call: Call, group: str) -> None:
    refused = call("groups", "reset", "fresh", "--to", "latest")
    assert (refused.exit_code, refused.stderr) == (
        1,
        "error: group 'fresh' has no committed offsets; name a topic with --topic\n",
    )
    assert call("groups", "reset", "fresh", "--to", "latest", "--topic", "orders", "--execute").exit_code == 0


def test_the_group_of_an_app_cannot_be_reset(call: Call, group: str, data_dir: Path) -> None:
    journal_dir(data_dir, group).mkdir(parents=True)
    refused = call("groups", "reset", group, "--to", "earliest", "--execute")
    assert refused.exit_code == 1
    assert "belongs to the app of that name" in refused.stderr


@pytest.mark.parametrize(("arguments", "answer"), [(["--yes"], None), ([], "y\n")])
def test_a_group_is_deleted(call: Call, group: str, arguments: list[str], answer: str | None) -> None:
    assert call("groups", "delete", group, *arguments, input=answer).exit_code == 0
    assert call("groups", "list").stdout == ""


def test_deletion_can_be_declined(call: Call, group: str) -> None:
    denied = call("groups", "delete", group, input="n\n")
    assert denied.stderr.endswith("nothing was deleted\n")
    assert "audit" in call("groups", "list").stdout
