"""What the source refuses, and what it says about it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.connectors.change_data_reading import SECONDS, Reading
from tests.servers.mariadb import MariadbServer

from millstream.connectors.mysql_cdc import MysqlCdc
from millstream.connectors.mysql_cdc.events import LoggedStatement
from millstream.connectors.mysql_cdc.position import parse_position
from millstream.connectors.mysql_cdc.statements import changed_table
from millstream.errors import ConnectorError, DefinitionError

Sql = Callable[..., list[Any]]
MakeReading = Callable[..., Reading]


@pytest.fixture
def shop(sql: Sql, reading: MakeReading) -> Reading:
    """A source that has read a row of the snapshot and one of the log, and is closed."""
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    shop = reading("t")
    shop.until(lambda: shop.count("t") == 1)
    sql("INSERT INTO t VALUES (2)")
    shop.until(lambda: shop.count("t") == 2)
    shop.close()
    return shop


def changed(position: bytes | None, **changes: Any) -> bytes:
    assert position is not None
    return msgspec.structs.replace(parse_position(position), **changes).to_bytes()


def test_a_purged_log_is_a_gap(shop: Reading, sql: Sql, mysql: MariadbServer) -> None:
    sql("INSERT INTO t VALUES (3)", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    newest = mysql.execute("SHOW BINARY LOGS")[-1][0]
    deadline = time.monotonic() + SECONDS
    while len(mysql.execute(f"PURGE BINARY LOGS TO '{newest}'", "SHOW BINARY LOGS")) > 1:  # a closed reader may use one
        assert time.monotonic() < deadline
    with pytest.raises(ConnectorError, match=f"no binary log .* any longer; its oldest is '{newest}'; the changes in"):
        shop.open()


def test_another_server_is_refused(shop: Reading) -> None:
    shop.position = changed(shop.position, server="another")
    with pytest.raises(ConnectorError, match="the position is one of 'another'; connect to the server that was read"):
        shop.open()


def test_a_log_that_lost_its_end_is_refused(shop: Reading) -> None:
    shop.position = changed(shop.position, offset=1 << 40)
    with pytest.raises(ConnectorError, match="the server has lost the end of its log, or begun a new one; reset"):
        shop.open()


def test_a_log_with_other_transactions_is_refused(shop: Reading, mysql: MariadbServer) -> None:
    if not parse_position(shop.position or b"").gtid:
        mysql_mode = mysql.execute("SELECT @@gtid_mode")
        pytest.skip(f"the server has no ids of transactions: {mysql_mode}")
    other = "0-1-999999" if type(mysql) is MariadbServer else "3e11fa47-71ca-11e1-9e33-c80aa9429562:1"
    shop.position = changed(shop.position, gtid=other)
    with pytest.raises(ConnectorError, match=f"transaction {other} is not in the binary log"):
        shop.open()


def test_a_truncated_table_stops_the_source_or_is_ignored(shop: Reading, sql: Sql, reading: MakeReading) -> None:
    sql("TRUNCATE TABLE t", "INSERT INTO t VALUES (3)")
    with pytest.raises(ConnectorError, match=r"\.t was truncated by a statement.* or set on_truncate='ignore'"):
        shop.until(lambda: False)
    tolerant = reading("t", directory="other", on_truncate="ignore")
    tolerant.position = shop.position
    tolerant.until(lambda: tolerant.count("t") == 1)
    assert [key for key, _ in tolerant.records["t"]] == [b"3"]


def test_rows_without_all_columns_are_refused(shop: Reading, sql: Sql) -> None:
    sql("ALTER TABLE t ADD COLUMN n INT", "SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE t SET n = 1")
    with pytest.raises(ConnectorError, match="does not have all columns; set binlog_row_image = FULL everywhere"):
        shop.until(lambda: False)


def test_statements_instead_of_rows_are_refused(shop: Reading, sql: Sql) -> None:
    sql("SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO t VALUES (3)")
    with pytest.raises(ConnectorError, match=r"a statement instead of the rows of table .*INSERT INTO t VALUES"):
        shop.until(lambda: False)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("binlog_row_image", "MINIMAL", "binlog_row_image is 'MINIMAL'; set it to FULL"),
        ("binlog_row_metadata", "MINIMAL", "binlog_row_metadata is 'MINIMAL'; set it to FULL"),
        ("binlog_format", "MIXED", "binlog_format is 'MIXED'; set it to ROW"),
    ],
)
def test_settings_that_lose_values_are_refused(
    setting: str, value: str, message: str, shop: Reading, mysql: MariadbServer
) -> None:
    [(before,)] = mysql.execute(f"SELECT @@GLOBAL.{setting}")
    mysql.execute(f"SET GLOBAL {setting} = '{value}'")
    try:
        assert isinstance(shop.source, MysqlCdc)
        assert any(problem.startswith(message) for problem in shop.source.check())
        with pytest.raises(ConnectorError, match=message):
            shop.open()
    finally:
        mysql.execute(f"SET GLOBAL {setting} = '{before}'")


def test_tables_that_cannot_be_read_are_named(mysql: MariadbServer, schema: str, sql: Sql) -> None:
    sql("CREATE TABLE a (id INT)", "CREATE TABLE b (id INT PRIMARY KEY) ENGINE = MyISAM")
    sql("CREATE TABLE c (e ENUM('x') PRIMARY KEY)")
    problems = MysqlCdc(mysql.url(schema), tables=["a", "b", "c", "d"]).check()
    expected = ["a has no primary key", "b is stored by MyISAM", "'e' of .*c is of type enum", "d does not exist"]
    assert len(problems) == len(expected), problems
    for problem, pattern in zip(problems, expected, strict=True):
        assert re.search(pattern, problem), problem


def test_definitions_that_cannot_work_are_refused() -> None:
    with pytest.raises(DefinitionError, match=r"tables a\.t and b\.t have the same topic 't'"):
        MysqlCdc("mysql://cdc@127.0.0.1/shop", tables=["a.t", "b.t"])
    with pytest.raises(DefinitionError, match="reads nothing"):
        MysqlCdc("mysql://cdc@127.0.0.1/shop", tables=[])


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("/* x */ truncate `t`", "truncated"),
        ("TRUNCATE TABLE shop.t", "truncated"),
        ("DROP TABLE IF EXISTS `other`,`t` /* generated by server */", "dropped"),
        ("DROP TABLE `shop`.`t`", "dropped"),
        ("CREATE OR REPLACE TABLE t (id int)", "replaced"),
        ("RENAME TABLE t TO old, new TO t", "renamed"),
        ("ALTER TABLE new RENAME TO t", "renamed"),
        ("ALTER TABLE t DROP PARTITION p0", "changed by partitions"),
        ("DROP DATABASE shop", "dropped"),
        ("ALTER TABLE t RENAME COLUMN a TO t", None),
        ("ALTER TABLE t ADD COLUMN c INT", None),
        ("DROP TEMPORARY TABLE t", None),
        ("TRUNCATE other.t", None),
        ("CREATE TABLE u (t int)", None),
    ],
)
def test_statements_that_change_rows_as_a_whole_are_recognized(statement: str, what: str | None) -> None:
    assert changed_table(LoggedStatement("shop", statement), {"shop.t"}) == (what and ("shop.t", what))
