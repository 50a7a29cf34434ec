"""A data file that was cut short or overwritten is an error, for writers and readers, and never ends the process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import DamagedError
from millstream.foundation.data_file import check_structure
from millstream.foundation.storage import open_environment

PAGE = 4096
READ = """
import sys
from pathlib import Path
from millstream.errors import DamagedError
from millstream.foundation.storage import open_environment
try:
    environment = open_environment(Path(sys.argv[1]), ("rows",), readonly=sys.argv[2] == "reader")
    with environment.read() as txn, txn.cursor(db=environment.databases["rows"]) as cursor:
        print(sum(len(value) for _, value in cursor))
except DamagedError as error:
    print(error)
    sys.exit(3)
"""


def write_rows(path: Path, rows: int = 400, value_bytes: int = 1000) -> None:
    environment = open_environment(path, ("rows",), sync=False)
    values = {b"%06d" % row: bytes(value_bytes) for row in range(rows)}
    environment.update(
        lambda txn: [txn.put(key, value, db=environment.databases["rows"]) for key, value in values.items()]
    )
    environment.close()


def read_in_a_process(path: Path, role: str) -> tuple[int, str]:
    result = subprocess.run(
        [sys.executable, "-c", READ, str(path), role], capture_output=True, text=True, timeout=60, check=False
    )
    return result.returncode, result.stdout + result.stderr


@pytest.mark.parametrize("role", ["writer", "reader"])
@pytest.mark.parametrize("rows", [400, 4000], ids=["small", "large"])
def test_a_file_that_was_cut_short_is_an_error_and_does_not_end_the_process(
    tmp_path: Path, role: str, rows: int
) -> None:
    write_rows(tmp_path, rows)
    data = tmp_path / "data.mdb"
    os.truncate(data, data.stat().st_size // 2)
    code, output = read_in_a_process(tmp_path, role)
    assert code == 3, output
    assert f"'{data}' is damaged: it ends " in output
    assert "restore a savepoint or a backup, or reset the app" in output


@pytest.mark.parametrize("size", [0, 100, PAGE, PAGE + 100])
def test_a_file_that_lost_its_header_is_an_error(tmp_path: Path, size: int) -> None:
    write_rows(tmp_path)
    os.truncate(tmp_path / "data.mdb", size)
    with pytest.raises(DamagedError, match="is damaged"):
        open_environment(tmp_path, ("rows",))
    assert (tmp_path / "data.mdb").stat().st_size == size  # nothing was created in its stead


def test_a_file_that_has_been_empty_for_long_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may be creating an empty file, but not for ten minutes."""
    monkeypatch.setattr("millstream.foundation.data_file._CREATION_SECONDS", 100.0)
    write_rows(tmp_path)
    os.truncate(tmp_path / "data.mdb", 0)
    os.utime(tmp_path / "data.mdb", (0, 0))
    began = time.monotonic()
    with pytest.raises(DamagedError, match="it is empty"):
        open_environment(tmp_path, ("rows",))
    assert time.monotonic() - began < 50


def test_a_file_without_the_free_pages_at_its_end_is_whole(tmp_path: Path) -> None:
    """LMDB does not write pages that a transaction allocates and frees, so a whole file may be shorter than its map."""
    environment = open_environment(tmp_path, ("rows",), sync=False)
    rows = environment.databases["rows"]
    environment.update(lambda txn: txn.put(b"first", bytes(100), db=rows))
    environment.update(lambda txn: txn.put(b"large", bytes(PAGE * 600), db=rows))
    environment.update(lambda txn: txn.delete(b"large", db=rows))
    environment.update(lambda txn: txn.put(b"second", bytes(100), db=rows))
    environment.update(lambda txn: txn.put(b"third", bytes(100), db=rows))
    environment.close()
    os.truncate(tmp_path / "data.mdb", PAGE * 20)  # only free pages are beyond
    environment = open_environment(tmp_path, ("rows",), sync=False)
    with environment.read() as txn:
        assert txn.get(b"third", db=environment.databases["rows"]) == bytes(100)
    environment.close()


@pytest.mark.parametrize("page", [10, 20, 60])
def test_a_page_that_was_overwritten_is_an_error(tmp_path: Path, page: int) -> None:
    write_rows(tmp_path, 300)
    assert check_structure(tmp_path) is not None
    with (tmp_path / "data.mdb").open("r+b") as file:
        file.seek(page * PAGE)
        file.write(bytes(PAGE))
    with pytest.raises(DamagedError, match=f"page {page} was overwritten"):
        open_environment(tmp_path, ("rows",))


@given(
    st.lists(
        st.dictionaries(st.binary(min_size=1, max_size=20), st.integers(0, 20_000) | st.none(), max_size=30), max_size=8
    )
)
def test_every_file_that_lmdb_writes_is_whole(
    tmp_path_factory: pytest.TempPathFactory, transactions: list[dict[bytes, int | None]]
) -> None:
    path = tmp_path_factory.mktemp("whole")
    environment = open_environment(path, ("rows", "empty"), sync=False)
    rows = environment.databases["rows"]
    for changes in transactions:
        with environment.write() as txn:
            for key, size in changes.items():
                if size is None:
                    txn.delete(key, db=rows)
                else:
                    txn.put(key, bytes(size), db=rows)
        assert check_structure(path) is not None
    environment.close()


def test_a_large_value_that_becomes_shorter_is_whole(tmp_path: Path) -> None:
    """LMDB keeps the pages of a large value that is replaced by a shorter one in the same transaction."""
    environment = open_environment(tmp_path, ("rows",), sync=False)
    rows = environment.databases["rows"]
    with environment.write() as txn:
        txn.put(b"key", bytes(10 * PAGE), db=rows)
        txn.put(b"key", bytes(3 * PAGE), db=rows)
    assert check_structure(tmp_path) is not None
    environment.close()
