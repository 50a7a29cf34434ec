"""Fixtures of tests that read a real Postgres."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.connectors.change_data_reading import Reading
from tests.servers.postgres import Postgres

from millstream.connectors.postgres_cdc import PostgresCdc


@pytest.fixture
def sql(postgres: Postgres, database: str) -> Callable[[str], list[Any]]:
    """Run a statement in the database of the test."""
    return lambda statement: postgres.execute(statement, database=database)


@pytest.fixture
def reading(postgres: Postgres, database: str, tmp_path: Path) -> Iterator[Callable[..., Reading]]:
    """Return a function that makes a reading of tables."""
    made: list[Reading] = []

    def make(*tables: str, directory: str = "state", **options: Any) -> Reading:
        source = PostgresCdc(postgres.url(database), tables=tables, slot=database, publication=database, **options)
        made.append(Reading(source, tmp_path / directory))
        return made[-1]

    yield make
    for each in made:
        each.close()
