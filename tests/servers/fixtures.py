"""Fixtures of the servers: each is started once per process, and its tests are skipped where it cannot start."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from tests.servers.debian import NoServerError
from tests.servers.postgres import Postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Start Postgres with logical replication."""
    try:
        server = Postgres()
        server.create().start()
    except NoServerError as reason:
        pytest.skip(f"Postgres cannot run here: {reason}")
    yield server
    server.remove()


@pytest.fixture
def database(postgres: Postgres) -> Iterator[str]:
    """Create a database for one test and return its name; its replication slots are dropped with it."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    postgres.execute(f"CREATE DATABASE {name}")
    yield name
    postgres.execute(
        "SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots "  # waits until it has ended
        f"WHERE database = '{name}' AND active_pid IS NOT NULL"
    )
    postgres.execute(f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '{name}'")
    postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")
