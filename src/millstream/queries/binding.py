"""Bind a session to an app that has run: its SQL and its tables are read from the data directory, without its code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from millstream.batch.journal import Journal
from millstream.errors import DefinitionError
from millstream.foundation.paths import has_run, journal_dir
from millstream.foundation.typed_decoding import convert
from millstream.queries.pausing import QueryControl
from millstream.sql.published import Published
from millstream.tables.opening import open_tables
from millstream.tables.rows import TableReader


def stored_sql(data_dir: Path, app: str) -> Published:
    """Return the SQL that an app had when it was last started; empty if it has not run, or is written in Python."""
    if not has_run(data_dir, app):
        return Published()
    stored = Journal(journal_dir(data_dir, app), readonly=True).catalog().get("sql")
    try:
        return Published() if stored is None else convert(stored, Published)
    except msgspec.ValidationError as error:
        raise DefinitionError(
            f"the SQL of app {app!r} was stored by another version of Millstream: {error}", hint="start the app again"
        ) from error


def query_control(data_dir: Path, app: str) -> QueryControl:
    """Return what pauses and resumes the queries that an app had when it was last started."""
    return QueryControl(data_dir, app, stored_sql(data_dir, app))


def stored_tables(data_dir: Path, app: str) -> Mapping[str, TableReader]:
    """Return the tables of an app; none if it has not run."""
    return open_tables(data_dir, app) if has_run(data_dir, app) else {}
