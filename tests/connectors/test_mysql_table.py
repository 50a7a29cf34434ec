"""Tables of a real MariaDB: the kit, kills, keys that differ in case, types, refused rows, rights."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.connectors.batches import batch, context
from tests.connectors.killed_writer import write_with_kills
from tests.connectors.test_hostile_rows import (
    check_keys,
    check_names_and_values,
    check_refused_names,
    check_refused_values,
)
from tests.servers.debian import NoServerError
from tests.servers.mariadb import MariadbServer

from millstream.connect.protocols import RecordsRejectedError
from millstream.connectors.sql_tables import MysqlTable
from millstream.errors import ConnectorError, DefinitionError, TargetUnavailableError
from millstream.testing.connectors import SINK_CASES, SinkTarget, check_sink

SEED = 17


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    try:
        server = MariadbServer(tmp_path_factory.mktemp("mariadb")).create()
        server.start()
    except NoServerError as reason:
        pytest.skip(f"MariaDB cannot run here: {reason}")
    yield server
    server.kill()


class MysqlTarget(SinkTarget):
    """A table of its own; text does not fit into its column of integers."""

    poison = {"n": "seven"}
    mode: Literal["upsert", "append"] = "upsert"

    def __init__(self, server: MariadbServer, table: str) -> None:
        self.server, self.table = server, table
        server.execute("DROP TABLE IF EXISTS millstream_sinks")
        server.execute(f"DROP TABLE IF EXISTS {table}")

    def sink(self) -> MysqlTable:
        return MysqlTable(self.server.url(), self.table, mode=self.mode, columns={"n": "bigint"})

    def rows(self) -> list[tuple[Any, Any]]:
        return [(key, {"n": n}) for key, n in self.server.execute(f"SELECT `key`, n FROM {self.table}")]


class MysqlAppend(MysqlTarget):
    is_keyed = False
    mode = "append"


@pytest.mark.server
@pytest.mark.xdist_group("mariadb")
@pytest.mark.parametrize("case", SINK_CASES)
@pytest.mark.parametrize("kind", [MysqlTarget, MysqlAppend])
def test_the_kit(kind: type[MysqlTarget], case: str, mariadb: MariadbServer, tmp_path: Path) -> None:
    numbers = itertools.count()
    check_sink(case, lambda: kind(mariadb, f"numbers_{next(numbers)}"), tmp_path)


@pytest.mark.server
@pytest.mark.crash
@pytest.mark.xdist_group("mariadb")
def test_a_writer_that_is_killed_loses_and_doubles_nothing(mariadb: MariadbServer, tmp_path: Path) -> None:
    sink = MysqlTable(mariadb.url(), "killed", mode="append")
    killed = write_with_kills(sink, tmp_path, batches=300, kills=10, seed=SEED)
    assert killed
    assert mariadb.execute("SELECT count(*), count(DISTINCT id), max(batch) FROM killed") == [(6000, 6000, 300)]


@pytest.mark.server
@pytest.mark.xdist_group("mariadb")
def test_rows_of_all_types_and_keys_that_differ_only_in_case_or_a_space(mariadb: MariadbServer, tmp_path: Path) -> None:
    writer = MysqlTable(mariadb.url(), "test.all types").open(context(tmp_path, "types"))
    odd = "tab\t, line\nfeed, back\\slash, 'quote', \"quote\", `tick`, 100 %s, é 🙂"
    value = {"n": 2**62, "x": 0.25, "ok": True, "note": odd, "tags": {"n": [1]}, "none": None, "per%cent.": "y"}
    writer.write(batch(1, [("k", value), ("K", value), ("k ", value), ("é", value), ("e", value)]))
    writer.write(batch(2, [("K", None), ("k", {**value, "tags": "text", "ok": False})]))
    writer.close()
    stored = mariadb.execute("SELECT `key`, n, x, ok, note, tags, `per%cent.` FROM `all types` ORDER BY `key`")
    assert sorted(row[0] for row in stored) == ["e", "k", "k ", "é"]
    assert ("e", 2**62, 0.25, 1, odd, '{"n":[1]}', "y") in stored
    assert ("k", 2**62, 0.25, 0, odd, '"text"', "y") in stored


@pytest.mark.server
@pytest.mark.xdist_group("mariadb")
def test_rows_that_the_server_refuses_are_found_and_errors_are_translated(
    mariadb: MariadbServer, tmp_path: Path
) -> None:
    mariadb.execute("CREATE TABLE small (`key` varchar(10) PRIMARY KEY, n int CHECK (n < 50), x double)")
    writer = MysqlTable(mariadb.url(), "small").open(context(tmp_path, "small"))
    rows: list[tuple[str, dict[str, Any]]] = [(f"k{n}", {"n": 2**40 if n == 3 else n}) for n in range(52)]
    rows += [("much too long", {"n": 1}), ("nan", {"x": float("nan")})]
    with pytest.raises(RecordsRejectedError) as rejected:
        writer.write(batch(1, rows))
    assert [item.record.key for item in rejected.value.rejected] == ["k3", "k50", "k51", "much too long", "nan"]
    assert mariadb.execute("SELECT count(*) FROM small") == [(0,)]
    writer.close()
    mariadb.execute("CREATE TABLE old (`key` int PRIMARY KEY) ENGINE = MyISAM")
    with pytest.raises(ConnectorError, match="is stored by MyISAM, which has no transactions"):
        MysqlTable(mariadb.url(), "old").open(context(tmp_path, "old"))
    with pytest.raises(TargetUnavailableError, match="MySQL cannot be used now"):
        MysqlTable("mysql://u@127.0.0.1:1/x", "small").open(context(tmp_path))


@pytest.mark.server
@pytest.mark.xdist_group("mariadb")
def test_a_check_names_missing_rights_and_tables(mariadb: MariadbServer) -> None:
    mariadb.execute("CREATE TABLE checked (`key` varchar(10) PRIMARY KEY, n int)")
    mariadb.execute("CREATE USER reader@'%'")
    mariadb.execute("GRANT SELECT ON test.* TO reader@'%'")
    assert MysqlTable(mariadb.url(), "checked").check() == []
    assert MysqlTable(mariadb.url(), "absent").check() == []
    assert MysqlTable(mariadb.url(), "absent", create=False).check() == [
        "table 'absent' does not exist; create it, or leave create=False out"
    ]
    (problem,) = MysqlTable(mariadb.url(user="reader"), "checked").check()
    assert "INSERT" in problem
    assert "check its key and your rights" in problem


def test_passwords_are_references_and_urls_are_checked() -> None:
    with pytest.raises(DefinitionError, match="the URL contains a password"):
        MysqlTable("mysql://app:pw@localhost/bi", "totals")
    for url in ("mysql://localhost/bi", "mysql://app@localhost", "postgresql://app@localhost/bi"):
        with pytest.raises(DefinitionError, match=r"URL .*is not valid"):
            MysqlTable(url, "totals")


@pytest.mark.server
@pytest.mark.xdist_group("mariadb")
def test_names_are_quoted_and_values_are_escaped(mariadb: MariadbServer, tmp_path: Path) -> None:
    def make(table: str, **options: Any) -> MysqlTable:
        return MysqlTable(mariadb.url(), table, **options)

    def begin() -> None:
        mariadb.execute("DROP TABLE IF EXISTS orders, millstream_sinks")

    begin()
    check_names_and_values(make, mariadb.execute, tmp_path / "names", mark="`")
    begin()
    check_keys(make, mariadb.execute, tmp_path / "keys")
    begin()
    check_refused_names(make, mariadb.execute, tmp_path / "refused", ["N", "n ", "🦆"])
    begin()
    check_refused_values(make, mariadb.execute, tmp_path / "values", [])
