"""Change data from MySQL and MariaDB: snapshots of tables, then their changes from the binary log."""

from millstream.connectors.mysql_cdc.source import MysqlCdc

__all__ = ["MysqlCdc"]
