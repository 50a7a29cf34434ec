"""A flipped bit in an environment is an error or makes no difference; it never changes a value."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import DamagedError
from millstream.foundation.checked import with_checksum, without_checksum
from millstream.foundation.data_file import check_environment
from millstream.foundation.storage import Environment, open_environment

ROWS = {b"key-%05d" % number: b"value of %d" % number for number in range(2000)}
FLIP = """
import sys
from pathlib import Path
from millstream.errors import DamagedError
from millstream.foundation.storage import open_environment
path, flips = Path(sys.argv[1]), [int(number) for number in sys.argv[2].split(",")]
data = path / "data.mdb"
whole = data.read_bytes()
def content():
    environment = open_environment(path, ("rows", "empty"), sync=False)
    try:
        rows = environment.databases["rows"]
        with environment.read() as txn:
            result = list(txn.cursor(db=rows)), [txn.get(b"key-%05d" % number, db=rows) for number in range(2000)]
        environment.update(lambda txn: txn.put(b"after", b"x", db=rows))
        with environment.read() as txn:
            assert list(txn.cursor(db=rows))[1:] == result[0]
        return result
    finally:
        environment.close()
expected, errors = content(), 0
for flip in flips:
    damaged = bytearray(whole)
    damaged[flip // 8] ^= 1 << flip % 8
    data.write_bytes(damaged)
    try:
        assert content() == expected, flip
    except DamagedError:
        errors += 1
print(errors)
"""


def write_rows(path: Path, rows: dict[bytes, bytes] = ROWS) -> None:
    environment = open_environment(path, ("rows", "empty"), sync=False)
    database = environment.databases["rows"]
    for _ in range(3):  # so that there are free pages
        environment.update(lambda txn: [txn.put(key, value, db=database) for key, value in rows.items()])
    environment.close()


def flip(data: Path, text: bytes, position: int = 0) -> None:
    """Flip a bit of every copy of a text; pages that are free may hold older copies."""
    content = bytearray(data.read_bytes())
    start = content.index(text)
    while start >= 0:
        content[start + position] ^= 1
        start = content.find(text, start)
    data.write_bytes(content)


def test_a_flipped_bit_anywhere_is_an_error_or_makes_no_difference(tmp_path: Path) -> None:
    write_rows(tmp_path)
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    bits = 8 * (tmp_path / "data.mdb").stat().st_size
    chosen = random.Random(seed)
    flips = [chosen.randrange(8 * 160) for _ in range(40)] + [chosen.randrange(bits) for _ in range(120)]
    result = subprocess.run(
        [sys.executable, "-c", FLIP, str(tmp_path), ",".join(map(str, flips))],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert result.returncode == 0, f"seed {seed}: {result.stderr}"
    assert int(result.stdout) > 20, seed


@pytest.fixture
def large(tmp_path: Path) -> Environment:
    """An environment that is too large to be checked when it is opened, with a flipped bit in one value."""
    write_rows(tmp_path, {b"key-%05d" % number: b"value of %d." % number * 60 for number in range(4000)})
    flip(tmp_path / "data.mdb", b"value of 1777.")
    return open_environment(tmp_path, ("rows",))


def test_a_flipped_bit_in_a_value_is_found_by_every_way_of_reading(large: Environment) -> None:
    rows, key = large.databases["rows"], b"key-01777"
    match = r"data.mdb' is damaged: the entry b'key-01777' does not match its checksum"
    with large.read() as txn:
        cursor = txn.cursor(db=rows)
        for read in (
            lambda: txn.get(key, db=rows),
            lambda: list(cursor),
            lambda: list(cursor.iternext()),
            lambda: cursor.getmulti([b"key-01776", key]),
            lambda: cursor.set_range(key) and cursor.item(),
            lambda: cursor.set_range(key) and cursor.value(),
        ):
            cursor.first()
            with pytest.raises(DamagedError, match=match):
                read()
        assert txn.get(b"key-01776", db=rows) == b"value of 1776." * 60
    large.close()


def test_a_flipped_bit_in_a_key_is_found_by_a_complete_check(tmp_path: Path) -> None:
    write_rows(tmp_path, {b"key-%05d" % number: b"value" * 100 for number in range(4000)})
    assert check_environment(tmp_path) > 0
    flip(tmp_path / "data.mdb", b"key-01778", position=8)
    with pytest.raises(DamagedError, match=r"are not in order|does not match its checksum"):
        check_environment(tmp_path)


def test_a_lost_format_is_found_by_a_complete_check_too(tmp_path: Path) -> None:
    write_rows(tmp_path, {b"key": b"value"})
    flip(tmp_path / "data.mdb", b"millstream-format", position=16)
    for check in (check_environment, open_environment):
        with pytest.raises(DamagedError, match="its format None is not valid"):
            check(tmp_path)


def test_a_database_that_is_lost_is_not_created_again(tmp_path: Path) -> None:
    write_rows(tmp_path, {b"key-%05d" % number: b"value" * 100 for number in range(4000)})
    environment = open_environment(tmp_path, ("empty",))
    with environment.write() as txn:
        txn.drop(environment.databases["empty"], delete=True)
    environment.close()
    with pytest.raises(DamagedError, match="database 'empty' is lost"):
        open_environment(tmp_path, ("rows", "empty"))
    with pytest.raises(DamagedError, match="database 'empty' is lost"):
        check_environment(tmp_path)


def test_an_environment_of_format_1_is_read_and_written_without_checksums(tmp_path: Path) -> None:
    open_environment(tmp_path).close()
    environment = open_environment(tmp_path)
    unnamed: Any = None
    environment.update(lambda txn: txn.put(b"millstream-format", b"1", db=unnamed))
    environment.close()
    for value in (b"first", b"second"):
        environment = open_environment(tmp_path, ("rows",))
        with environment.write() as txn:
            txn.put(b"key", value, db=environment.databases["rows"])
        with environment.read() as reading:
            assert reading.get(b"key", db=environment.databases["rows"]) == value
        environment.close()
        assert check_environment(tmp_path) > 0
    content = (tmp_path / "data.mdb").read_bytes()
    assert with_checksum(b"key", value) not in content
    assert value in content


@given(st.binary(max_size=20), st.binary(max_size=50), st.data())
def test_a_checksum_covers_key_and_value(key: bytes, value: bytes, data: st.DataObject) -> None:
    stored = with_checksum(key, value)
    assert without_checksum(key, stored, Path()) == value
    bit = data.draw(st.integers(0, 8 * len(key + stored) - 1))
    damaged = bytearray(key + stored)
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DamagedError):
        without_checksum(bytes(damaged[: len(key)]), bytes(damaged[len(key) :]), Path())
