"""Recorded changes of a state are applied to a copy of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.foundation.content import TASK_STATE
from millstream.foundation.storage import close_environments, open_environment
from millstream.state.recording import Rows, write_rows

DATABASES = ("one", "two")
KEYS = st.sampled_from([b"a", b"ab", b"b", b"\xff", b"c" * 200])
VALUES = st.none() | st.sampled_from([b"", b"1", b"2", b"x" * 5000])
ROWS = st.lists(st.tuples(st.sampled_from(DATABASES), KEYS, VALUES), max_size=30)


@given(st.lists(ROWS, min_size=1, max_size=3))
def test_the_last_of_several_rows_with_one_key_counts(
    tmp_path_factory: pytest.TempPathFactory, commits: list[Rows]
) -> None:
    directory = tmp_path_factory.mktemp("state")
    expected: dict[tuple[str, bytes], bytes] = {}
    for rows in commits:
        write_rows(directory, rows, sync=False)
        for database, key, value in rows:
            expected.pop((database, key), None)
            if value is not None:
                expected[database, key] = value
    environment = open_environment(directory, DATABASES, content=TASK_STATE)
    with environment.read() as txn:
        stored = {
            (database, bytes(key)): bytes(value)
            for database in DATABASES
            for key, value in txn.cursor(environment.databases[database])
        }
    close_environments(directory)
    assert stored == expected
