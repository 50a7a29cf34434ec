from collections.abc import Callable
from pathlib import Path
from unittest.mock import ANY

import msgspec
import pytest
from tests.cli.conftest import Call

from millstream.log import EmbeddedLog
from millstream.records import Record
from millstream.testing.datagen import KINDS

Stored = Callable[[str], list[Record]]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_records_of_a_kind_are_json_with_a_key(call: Call, stored: Stored, kind: str) -> None:
    made = call("datagen", kind, "--rate", "100000", "--max", "50")
    assert made.exit_code == 0, made.stderr
    assert made.stderr.endswith(f"wrote 50 records to {kind}\n")
    records = stored(kind)
    assert len(records) == 50
    assert all(record.key and msgspec.json.decode(record.value) for record in records)


def test_the_same_seed_generates_the_same_records(call: Call, stored: Stored) -> None:
    for topic in ("one", "two"):
        call(
            "datagen", "trades", "--topic", topic, "--rate", "100000", "--max", "30", "--seed", "5", "--partitions", "1"
        )
    assert [record.value for record in stored("one")] == [record.value for record in stored("two")]


def test_some_records_are_late(call: Call, stored: Stored) -> None:
    call("datagen", "clicks", "--rate", "100000", "--max", "500", "--partitions", "1")
    times = [record.timestamp for record in stored("clicks")]
    assert times != sorted(times)


def test_only_records_that_are_stored_are_counted(call: Call, small_disk: Path) -> None:
    directory = small_disk / "data"
    (small_disk / "ballast").write_bytes(b"x" * 3_000_000)
    refused = call("datagen", "orders", "--rate", "1000000", "--max", "200000", "--data-dir", str(directory))
    assert refused.exit_code == 1
    with EmbeddedLog(directory) as log:
        count = sum(bounds.end for bounds in log.offsets("orders"))
    assert count
    assert refused.stderr.splitlines() == [f"wrote {count:,} records to orders", ANY]
    assert "error: no space left for" in refused.stderr
