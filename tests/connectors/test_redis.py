"""Redis: a batch and its number are written at once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from tests.connectors.batches import batch, context, numbered
from tests.connectors.killed_writer import write_with_kills
from tests.servers.debian import NoServerError
from tests.servers.redis import RedisServer

from millstream import Secret
from millstream.connectors.redis import Redis
from millstream.errors import ConnectorError, DefinitionError, TargetUnavailableError
from millstream.records import Windowed

SEED = 11


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    try:
        server = RedisServer(tmp_path_factory.mktemp("redis"))
        server.start()
    except NoServerError as reason:
        pytest.skip(f"Redis cannot run here: {reason}")
    yield server
    server.stop()


@pytest.fixture
def client(server: RedisServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        client.flushall()
        yield client


@pytest.mark.server
def test_values_are_set_and_tombstones_delete(server: RedisServer, client: redis.Redis, tmp_path: Path) -> None:
    writer = Redis(server.url, key="total:{key}").open(context(tmp_path))
    rows = [("a", 1), ("b", {"n": 2}), (Windowed("w", 0, 60), dt.date(2026, 1, 1)), ("a", 3)]
    assert not writer.write(batch(1, rows))
    assert client.get("total:a") == "3"
    assert client.get("total:b") == '{"n":2}'
    assert client.get("total:w@0/60") == '"2026-01-01"'
    assert not writer.write(batch(2, [("a", None), ("c", 1), ("c", None)]))
    assert sorted(client.scan_iter("total:*")) == ["total:b", "total:w@0/60"]
    writer.close()


@pytest.mark.server
def test_a_hash_has_the_fields_of_the_value_and_none_of_the_one_before(
    server: RedisServer, client: redis.Redis, tmp_path: Path
) -> None:
    writer = Redis(server.url, form="hash", expire="1 h").open(context(tmp_path))
    writer.write(batch(1, [("a", {"city": "Rome", "old": 1})]))
    problems = writer.write(batch(2, [("a", {"city": "Köln", "n": 1.5, "tags": ["x"], "gone": None}), ("b", 7)]))
    assert client.hgetall("a") == {"city": "Köln", "n": "1.5", "tags": '["x"]'}
    assert 3_500 < client.ttl("a") <= 3_600
    assert [(problem.record.key, problem.error.partition(";")[0]) for problem in problems] == [
        ("b", "7 has no named fields")
    ]
    writer.close()


@pytest.mark.server
def test_a_repeated_batch_changes_nothing(server: RedisServer, client: redis.Redis, tmp_path: Path) -> None:
    sink = Redis(server.url)
    for number in (1, 2):
        sink.open(context(tmp_path)).write(batch(number, [("a", number)]))
    client.set("a", "changed by another program")
    for number in (1, 2):
        sink.open(context(tmp_path)).write(batch(number, [("a", number)]))
    assert client.get("a") == "changed by another program"
    sink.open(context(tmp_path)).write(batch(3, [("a", 3)]))
    assert client.get("a") == "3"


@pytest.mark.server
def test_another_lineage_is_refused_or_adopted(server: RedisServer, client: redis.Redis, tmp_path: Path) -> None:
    Redis(server.url).open(context(tmp_path)).write(batch(9, [("a", 1)]))
    with pytest.raises(ConnectorError, match="written by lineage 'first', and this batch is of 'second'; the app was"):
        Redis(server.url).open(context(tmp_path)).write(batch(1, [("a", 2)], lineage="second"))
    assert client.get("a") == "1"
    adopting = Redis(server.url, on_other_lineage="adopt").open(context(tmp_path))
    adopting.write(batch(1, [("a", 2)], lineage="second"))
    assert client.get("a") == "2"
    Redis(server.url).open(context(tmp_path, name="other")).write(batch(1, [("b", 1)], lineage="second"))
    assert client.get("b") == "1"  # sinks do not share a marker


@pytest.mark.server
def test_a_poison_record_is_rejected_and_the_others_are_written(
    server: RedisServer, client: redis.Redis, tmp_path: Path
) -> None:
    rows = [("a", 1), (None, 2), ("a", object()), ("b", 4)]
    problems = Redis(server.url).open(context(tmp_path)).write(batch(1, rows))
    assert [problem.record.offset for problem in problems] == [1001, 1002]
    assert problems[0].error == "the record has no key; set one with select_key"
    assert "cannot be written as JSON" in problems[1].error
    assert (client.get("a"), client.get("b")) == ("1", "4")


@pytest.mark.server
def test_an_outage_is_told_apart_from_an_error(server: RedisServer, client: redis.Redis, tmp_path: Path) -> None:
    writer = Redis(server.url).open(context(tmp_path))
    writer.write(batch(1, [("a", 1)]))
    server.stop()
    with pytest.raises(TargetUnavailableError, match="sink 'out' cannot write to Redis"):
        writer.write(batch(2, [("a", 2)]))
    server.start()
    writer.write(batch(2, [("a", 2)]))
    assert client.get("a") == "2"
    client.config_set("maxmemory", 1)
    with pytest.raises(TargetUnavailableError, match="maxmemory"):
        writer.write(batch(3, [("a", 3)]))
    client.config_set("maxmemory", 0)
    writer.write(batch(3, [("a", 3)]))
    client.config_set("requirepass", "secret")
    try:
        with pytest.raises(ConnectorError, match="check user, password") as raised:
            Redis(server.url).open(context(tmp_path)).write(batch(4, [("a", 4)]))
        assert not isinstance(raised.value, TargetUnavailableError)
        assert "check user, password" in Redis(server.url).check()[0]
    finally:
        client.config_set("requirepass", "")
    assert Redis(server.url).check() == []


@pytest.mark.server
def test_a_cluster_is_refused(server: RedisServer, tmp_path: Path) -> None:
    cluster = RedisServer(tmp_path / "cluster", cluster=True)
    cluster.start()
    try:
        with pytest.raises(ConnectorError, match="cannot write to a Redis Cluster"):
            Redis(cluster.url).open(context(tmp_path)).write(batch(1, [("a", 1)]))
    finally:
        cluster.stop()


@pytest.mark.server
@pytest.mark.crash
def test_kills_of_writer_lose_nothing(server: RedisServer, client: redis.Redis, tmp_path: Path) -> None:
    kills = write_with_kills(Redis(server.url, form="hash"), tmp_path, batches=300, kills=5, seed=SEED)
    last = numbered(300)
    assert {record.key: client.hget(record.key, "id") for record in last.records} == {
        record.key: str(record.value["id"]) for record in last.records
    }
    assert client.hget("millstream:shop:out", "number") == "300"
    assert kills > 0


def test_settings_are_checked() -> None:
    with pytest.raises(DefinitionError, match="contains a user or a password"):
        Redis("redis://:secret@localhost")
    with pytest.raises(DefinitionError, match="write redis://HOST:PORT"):
        Redis("http://localhost")
    with pytest.raises(DefinitionError, match=r"key='\{key' is not a template"):
        Redis("redis://localhost", key="{key")
    with pytest.raises(DefinitionError, match="would be sent to 'cache' in plain text"):
        Redis("redis://cache", password=Secret.env("PASSWORD"))
    assert Redis("redis://cache", password=Secret.env("PASSWORD"), allow_plain_text=True).password is not None
