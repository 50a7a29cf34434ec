"""The app of one query; NEXMARK_QUERY and NEXMARK_LANGUAGE select it, so that Spark workers build the same one."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.nexmark.python_queries import QUERIES

from millstream import App, Config

PARTITIONS = 2
SQL = Path(__file__).with_name("sql")
LANGUAGES = ("python", "sql")


def queries_of(language: str) -> list[str]:
    """Return the queries that are written in a language."""
    names = QUERIES if language == "python" else [path.stem for path in SQL.glob("q*.sql")]
    return sorted(names, key=lambda name: int(name[1:]))


def build(query: str, language: str) -> App:
    """Return the app of a query."""
    app = App(f"nexmark-{query}-{language}", config=Config(partitions=PARTITIONS))
    if language == "python":
        QUERIES[query](app)
    else:
        app.sql((SQL / "sources.sql").read_text() + (SQL / f"{query}.sql").read_text())
    return app


app = build(os.environ.get("NEXMARK_QUERY", "q0"), os.environ.get("NEXMARK_LANGUAGE", "python"))
