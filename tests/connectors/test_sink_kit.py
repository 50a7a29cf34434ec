"""The kit that every sink has to pass, for the sinks that need no SQL."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
import redis
from deltalake import DeltaTable
from tests.servers.debian import NoServerError
from tests.servers.receiver import Receiver, receiver
from tests.servers.redis import RedisServer

from millstream.connect.protocols import Sink
from millstream.connectors.delta import Delta
from millstream.connectors.files import Files
from millstream.connectors.redis import Redis
from millstream.connectors.webhook import Webhook
from millstream.testing.connectors import SINK_CASES, SinkTarget, check_sink


class FileTarget(SinkTarget):
    is_keyed = False
    poison = {"n": 1, "_key": "taken"}

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def sink(self) -> Sink:
        return Files(str(self.directory), format="jsonl")

    def rows(self) -> list[tuple[Any, Any]]:
        lines = [line for path in sorted(self.directory.glob("*.jsonl")) for line in path.read_text().splitlines()]
        return [(row["_key"], {"n": row["n"]}) for row in map(json.loads, lines)]


class ParquetTarget(FileTarget):
    poison = {"n": "seven"}

    def sink(self) -> Sink:
        return Files(str(self.directory), columns={"n": "int64"})

    def rows(self) -> list[tuple[Any, Any]]:
        table = ds.dataset(self.directory, format="parquet").to_table().sort_by("_offset")
        return [(row["_key"], {"n": row["n"]}) for row in table.to_pylist()]


class DeltaTarget(ParquetTarget):
    is_keyed = True

    def sink(self) -> Sink:
        return Delta(str(self.directory), mode="upsert", columns={"n": "int64"})

    def rows(self) -> list[tuple[Any, Any]]:
        rows = DeltaTable(str(self.directory)).to_pyarrow_table().to_pylist()
        return [(row["_key"], {"n": row["n"]}) for row in rows]


@pytest.mark.parametrize("case", SINK_CASES)
@pytest.mark.parametrize("kind", [FileTarget, ParquetTarget, DeltaTarget])
def test_files_and_tables_pass_the_kit(kind: type[FileTarget], case: str, tmp_path: Path) -> None:
    numbers = itertools.count()
    check_sink(case, lambda: kind(tmp_path / str(next(numbers))), tmp_path / "log")


class WebhookTarget(SinkTarget):
    is_keyed = False

    def __init__(self, target: Receiver) -> None:
        self.target = target

    def sink(self) -> Sink:
        return Webhook(self.target.url)

    def rows(self) -> list[tuple[Any, Any]]:
        bodies = [json.loads(received.body) for received in self.target.received]
        return [(body["key"], body["data"]) for body in bodies]


@pytest.mark.parametrize("case", SINK_CASES)
def test_webhooks_pass_the_kit(case: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        check_sink(case, lambda: WebhookTarget(stack.enter_context(receiver())), tmp_path)


class RedisTarget(SinkTarget):
    def __init__(self, server: RedisServer) -> None:
        self.server = server
        with redis.Redis.from_url(server.url) as client:
            client.flushall()

    def sink(self) -> Sink:
        return Redis(self.server.url, key="kit:{key}")

    def rows(self) -> list[tuple[Any, Any]]:
        with redis.Redis.from_url(self.server.url, decode_responses=True) as client:
            return [(key.removeprefix("kit:"), json.loads(client.get(key))) for key in client.scan_iter("kit:*")]

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.server.stop()
        try:
            yield
        finally:
            self.server.start()


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    try:
        server = RedisServer(tmp_path_factory.mktemp("redis"))
        server.start()
    except NoServerError as reason:
        pytest.skip(f"Redis cannot run here: {reason}")
    yield server
    server.stop()


@pytest.mark.server
@pytest.mark.parametrize("case", SINK_CASES)
def test_redis_passes_the_kit(case: str, redis_server: RedisServer, tmp_path: Path) -> None:
    make: Callable[[], SinkTarget] = lambda: RedisTarget(redis_server)  # noqa: E731
    check_sink(case, make, tmp_path)
