from pathlib import Path

import pytest
from tests.cli.conftest import Call, Fill

from millstream.cli import group_reading
from millstream.log import EmbeddedLog


def lag(data_dir: Path) -> int:
    with EmbeddedLog(data_dir) as log:
        ends = log.offsets("lines")
        return sum(ends[at.partition].end - offset for at, offset in log.committed("audit").items())


def test_a_group_continues_from_its_committed_offsets(call: Call, fill: Fill, data_dir: Path) -> None:
    fill("lines", (b"a", b"1", 1), (b"c", b"3", 3))
    fill("lines", (b"b", b"2", 2), partition=1)
    first = call("consume", "lines", "--group", "audit", "--max", "2")
    assert (first.exit_code, len(first.stdout.splitlines())) == (0, 2)
    assert lag(data_dir) == 1
    second = call("consume", "lines", "--group", "audit")
    assert sorted((first.stdout + second.stdout).splitlines()) == ["a\t1", "b\t2", "c\t3"]
    assert call("consume", "lines", "--group", "audit").stdout == ""
    fill("lines", (b"d", b"4", 4), partition=1)
    assert call("consume", "lines", "--group", "audit", "--from-beginning").stdout == "d\t4\n"
    assert lag(data_dir) == 0


def test_a_member_leaves_at_the_end(call: Call, fill: Fill, data_dir: Path) -> None:
    fill("lines", (None, b"a", 1))
    call("consume", "lines", "--group", "audit")
    with EmbeddedLog(data_dir) as log:
        assert log.group("audit").members == ()


def test_members_share_partitions(call: Call, fill: Fill, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another member holds the partitions and does not release them: their records are not ours."""
    monkeypatch.setattr(group_reading, "_REBALANCE_SECONDS", 0.5)
    fill("lines", (None, b"a", 1))
    fill("lines", (None, b"b", 2), partition=1)
    with EmbeddedLog(data_dir) as log:
        other = log.join_group("audit", ["lines"])
        other.refresh(lambda lost: None)
        refused = call("consume", "lines", "--group", "audit")
        assert refused.stdout == ""
        assert "no partition to this member" in refused.stderr
        other.leave()
    assert sorted(call("consume", "lines", "--group", "audit").stdout.split()) == ["a", "b", "null", "null"]
