"""Tables of a real MySQL; those of MariaDB are in ``test_mysql_table``."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.connectors.batches import batch, context
from tests.connectors.killed_writer import write_with_kills
from tests.connectors.test_mysql_table import MysqlAppend, MysqlTarget
from tests.servers.mariadb import MariadbServer

from millstream.connect.protocols import RecordsRejectedError
from millstream.connectors.sql_tables import MysqlTable
from millstream.testing.connectors import SINK_CASES, check_sink

SEED = 18
pytestmark = [pytest.mark.server, pytest.mark.parametrize("mysql", ["mysql_log"], indirect=True)]


@pytest.mark.parametrize("case", SINK_CASES)
@pytest.mark.parametrize("kind", [MysqlTarget, MysqlAppend])
def test_the_kit(kind: type[MysqlTarget], case: str, mysql: MariadbServer, tmp_path: Path) -> None:
    numbers = itertools.count()
    check_sink(case, lambda: kind(mysql, f"numbers_{next(numbers)}"), tmp_path)


@pytest.mark.crash
def test_a_writer_that_is_killed_loses_and_doubles_nothing(mysql: MariadbServer, tmp_path: Path) -> None:
    mysql.execute("DROP TABLE IF EXISTS millstream_sinks")
    sink = MysqlTable(mysql.url(), "killed", mode="append")
    assert write_with_kills(sink, tmp_path, batches=30, kills=4, seed=SEED)
    assert mysql.execute("SELECT count(*), count(DISTINCT id), max(batch) FROM killed") == [(600, 600, 30)]


def test_types_keys_and_refused_rows(mysql: MariadbServer, tmp_path: Path) -> None:
    mysql.execute("DROP TABLE IF EXISTS millstream_sinks")
    writer = MysqlTable(mysql.url(), "test.all types").open(context(tmp_path, "types"))
    odd = "tab\t, line\nfeed, back\\slash, 'quote', \"quote\", `tick`, 100 %s, é 🙂"
    value: dict[str, Any] = {"n": 2**62, "x": 0.25, "ok": True, "note": odd, "tags": {"n": [1]}, "none": None}
    writer.write(batch(1, [("k", value), ("K", value), ("k ", value), ("é", value), ("e", value)]))
    writer.write(batch(2, [("K", None)]))
    for key, refused in (("b", {"n": "seven"}), ("c", {"x": float("nan")}), ("d" * 300, value)):
        with pytest.raises(RecordsRejectedError) as rejected:
            writer.write(batch(3, [("a", value), (key, refused)]))
        assert [item.record.key for item in rejected.value.rejected] == [key]
    writer.close()
    stored = mysql.execute("SELECT `key`, n, x, ok, note, tags FROM `all types`")
    assert sorted(row[0] for row in stored) == ["e", "k", "k ", "é"]
    assert ("e", 2**62, 0.25, 1, odd, '{"n": [1]}') in stored
