"""The last record of each key, for targets that keep one row for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from millstream.connect.protocols import Rejected
from millstream.connectors.arrow_rows import Columns, to_table
from millstream.connectors.rendering import rejected
from millstream.errors import SerdeError
from millstream.foundation.json_text import key_text
from millstream.records import Record


def latest_rows(records: Sequence[Record[Any, Any]], known: Columns) -> tuple[pa.Table, list[Rejected]]:
    """Return the row of the last record of each key, and the records that are rejected.

    If the last record of a key does not fit, the one before it counts, as if it had come in an earlier batch.
    """
    problems: list[Rejected] = []
    while True:
        latest, without_key = _latest_by_key(records)
        rows, unfit = to_table(latest, known)
        problems += [*without_key, *unfit]
        if not unfit:
            return rows, problems
        refused = {id(problem.record) for problem in problems}
        records = [record for record in records if id(record) not in refused]


def _latest_by_key(records: Sequence[Record[Any, Any]]) -> tuple[list[Record[Any, Any]], list[Rejected]]:
    """Return the last record of each key as text, and those that have no key."""
    latest: dict[str, Record[Any, Any]] = {}
    problems = []
    for record in records:
        try:
            if record.key is None:
                raise SerdeError("the record has no key", hint="set one with select_key")
            latest[key_text(record.key)] = record
        except SerdeError as error:
            problems.append(rejected(record, error))
    return list(latest.values()), problems
