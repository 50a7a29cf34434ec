"""Statements of the binary log that change rows without row events."""

from __future__ import annotations

import re
from collections.abc import Collection

from millstream.connectors.mysql_cdc.events import LoggedStatement
from millstream.errors import ConnectorError

_NAME = r"(?:`(?:[^`]|``)+`|[\w$]+)(?:\s*\.\s*(?:`(?:[^`]|``)+`|[\w$]+))?"
_COMMENT = re.compile(r"\A(?:\s+|/\*(?!!).*?\*/|--[^\n]*(?:\n|\Z)|#[^\n]*(?:\n|\Z))+", re.DOTALL)
_TRUNCATE = re.compile(rf"TRUNCATE\s+(?:TABLE\s+)?({_NAME})", re.IGNORECASE)
_DROP = re.compile(r"DROP\s+TABLE\s+(?:/\*.*?\*/\s*)?(?:IF\s+EXISTS\s+)?(.*)", re.IGNORECASE | re.DOTALL)
_REPLACE = re.compile(rf"CREATE\s+OR\s+REPLACE\s+TABLE\s+({_NAME})", re.IGNORECASE)
_RENAME = re.compile(rf"RENAME\s+TABLES?\s+(?:IF\s+EXISTS\s+)?({_NAME}\s+(?:.|\n)*)", re.IGNORECASE)
_ALTER = re.compile(rf"ALTER\s+(?:\w+\s+)*?TABLE\s+(?:IF\s+EXISTS\s+)?({_NAME})(.*)", re.IGNORECASE | re.DOTALL)
_PARTITIONS = re.compile(r"\b(?:TRUNCATE|DROP|EXCHANGE|CONVERT)\s+PARTITION\b|\bCONVERT\s+TABLE\b", re.IGNORECASE)
_RENAMES_TO = re.compile(rf"\bRENAME\s+(?:TO\s+|AS\s+|=\s*)?(?!COLUMN\b|INDEX\b|KEY\b)({_NAME})", re.IGNORECASE)
_DROP_DATABASE = re.compile(rf"DROP\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+EXISTS\s+)?({_NAME})", re.IGNORECASE)
_CHANGES_ROWS = re.compile(r"(?:INSERT|UPDATE|DELETE|REPLACE|LOAD|WITH)\b", re.IGNORECASE)


def changed_table(query: LoggedStatement, tables: Collection[str]) -> tuple[str, str] | None:
    """Return the first of some tables whose rows a statement changes as a whole, and what it does to it.

    >>> changed_table(LoggedStatement("shop", "truncate table `orders`"), {"shop.orders"})
    ('shop.orders', 'truncated')
    """
    statement = _COMMENT.sub("", query.statement)
    for names, what in _affected(statement):
        for name in re.findall(_NAME, names):
            table = _qualified(name, query.database)
            if table in tables:
                return table, what
    dropped = _DROP_DATABASE.match(statement)
    if dropped:
        database = _plain(dropped[1])
        return next(((table, "dropped") for table in tables if table.startswith(f"{database}.")), None)
    return None


def _affected(statement: str) -> list[tuple[str, str]]:
    """Return names in a statement and what it does to these tables."""
    if match := _TRUNCATE.match(statement):
        return [(match[1], "truncated")]
    if match := _DROP.match(statement):
        return [(match[1], "dropped")]
    if match := _REPLACE.match(statement):
        return [(match[1], "replaced")]
    if match := _RENAME.match(statement):
        return [(match[1], "renamed")]
    if match := _ALTER.match(statement):
        if _PARTITIONS.search(match[2]):
            return [(match[1], "changed by partitions")]
        if renamed := _RENAMES_TO.search(match[2]):
            return [(f"{match[1]} {renamed[1]}", "renamed")]
    return []


def refuse_statement_format(query: LoggedStatement, tables: Collection[str]) -> None:
    """Refuse a statement that wrote rows and was logged itself, instead of its rows, if it may be about a table."""
    statement = _COMMENT.sub("", query.statement)
    if not _CHANGES_ROWS.match(statement):
        return
    words = {word.lower() for word in re.findall(r"[\w$]+", statement)}
    for table in tables:
        if set(re.findall(r"[\w$]+", table.partition(".")[2].lower())) <= words:
            raise ConnectorError(
                f"the binary log has a statement instead of the rows of table {table}: {statement[:80]!r}",
                hint="set binlog_format = ROW everywhere, and reset the source, which reads all tables again",
            )


def _plain(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _qualified(name: str, database: str) -> str:
    parts = [_plain(part) for part in re.findall(r"`(?:[^`]|``)+`|[\w$]+", name)]
    return ".".join(parts) if len(parts) > 1 else f"{database}.{parts[0]}"
