"""What the SQL shell suggests while a statement is typed: keywords, sources, columns and functions."""

from __future__ import annotations

import re
from typing import Final

from millstream.sql.aggregates import AGGREGATES
from millstream.sql.catalog import Catalog
from millstream.sql.functions.registry import FUNCTIONS
from millstream.sql.functions.tables import TABLE_FUNCTIONS
from millstream.sql.parser.commands import COMMANDS, SHOWN

KEYWORDS: Final = (
    *COMMANDS, *SHOWN, "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "PARTITION BY", "ORDER BY", "LIMIT", "OFFSET",
    "EMIT CHANGES", "EMIT FINAL", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "WITHIN", "ON", "WINDOW TUMBLING",
    "WINDOW HOPPING", "WINDOW SESSION", "INSERT INTO", "VALUES", "CREATE STREAM", "CREATE TABLE", "CREATE TYPE", "DROP",
    "SET", "UNSET", "DEFINE", "AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS NULL", "IS NOT NULL", "CASE", "WHEN",
    "THEN", "ELSE", "END", "CAST", "AS", "ASC", "DESC", "FROM BEGINNING", "EXTENDED",
)  # fmt: skip
_WORD = re.compile(r"[\w.`]*$")
_BEFORE_SOURCE = re.compile(r"\b(FROM|JOIN|INTO|DESCRIBE|DESCRIBE\s+EXTENDED|DROP\s+(STREAM|TABLE))\s+$", re.IGNORECASE)
_PSEUDO = ("ROWTIME", "WINDOWSTART", "WINDOWEND")


def last_word(text: str) -> str:
    """Return the word that is being typed at the end of a text."""
    match = _WORD.search(text)
    return "" if match is None else match[0]


def suggestions(text: str, catalog: Catalog) -> list[str]:
    """Return the words that can complete the last one of a text, in the case in which it is typed."""
    word = last_word(text)
    before = text[: len(text) - len(word)]
    sources = list(catalog.relations)
    if _BEFORE_SOURCE.search(before):
        candidates = sources
    elif not before.strip() or before.rstrip().endswith(";"):
        candidates = [keyword for keyword in KEYWORDS if word]
    else:
        names = (*FUNCTIONS, *AGGREGATES, *TABLE_FUNCTIONS, *catalog.functions)
        functions = (name for name in names if not name.startswith("_"))
        candidates = [*_columns(text, catalog), *sources, *KEYWORDS, *functions]
    fitting = sorted(
        {each for each in candidates if each.upper().startswith(word.upper()) and each.upper() != word.upper()}
    )
    return [each.lower() for each in fitting] if word and word == word.lower() else fitting


def _columns(text: str, catalog: Catalog) -> list[str]:
    """Return the columns of the sources that a text names; of all sources if it names none yet."""
    words = set(re.findall(r"\w+", text.upper()))
    named = [each for name, each in catalog.relations.items() if name in words] or list(catalog.relations.values())
    columns = [column for each in named for column in (*each.keys, *each.values, *each.headers)]
    return [*columns, *_PSEUDO] if columns else []
