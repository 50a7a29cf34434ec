"""OpenSearch: external versions make a repeated batch harmless, and an older one too."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.connectors.batches import batch, context, numbered
from tests.connectors.killed_writer import write_with_kills
from tests.servers.debian import NoServerError
from tests.servers.opensearch import OpenSearchServer
from tests.servers.receiver import receiver

from millstream import Secret
from millstream.connect.protocols import Sink
from millstream.connectors.http_requests import send
from millstream.connectors.opensearch import OpenSearch
from millstream.errors import ConnectorError, DefinitionError, TargetUnavailableError
from millstream.testing.connectors import SINK_CASES, SinkTarget, check_sink

SEED = 13
SETTINGS = {
    "settings": {"number_of_shards": 1, "number_of_replicas": 0, "index.gc_deletes": "1h"},
    "mappings": {"properties": {"n": {"type": "long"}}},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearchServer]:
    try:
        server = OpenSearchServer(tmp_path_factory.mktemp("opensearch"))
        server.start()
    except NoServerError as reason:
        pytest.skip(f"OpenSearch cannot run here: {reason}")
    yield server
    server.stop()


def document(server: OpenSearchServer, index: str, id: str) -> Any:
    answer = send("search", f"{server.url}/{index}/_doc/{id}", None, {}, method="GET")
    return msgspec.json.decode(answer.body).get("_source")


class OpenSearchTarget(SinkTarget):
    poison = {"n": "many"}

    def __init__(self, server: OpenSearchServer) -> None:
        self.server, self.index = server, f"kit-{uuid.uuid4().hex[:8]}"

    def sink(self) -> Sink:
        return OpenSearch(self.server.url, index=self.index, settings=SETTINGS)

    def rows(self) -> list[tuple[Any, Any]]:
        send("search", f"{self.server.url}/{self.index}/_refresh", b"", {})
        answer = send("search", f"{self.server.url}/{self.index}/_search?size=100", None, {}, method="GET")
        return [(hit["_id"], hit["_source"]) for hit in msgspec.json.decode(answer.body)["hits"]["hits"]]


@pytest.mark.server
@pytest.mark.parametrize("case", SINK_CASES)
def test_it_passes_the_kit(server: OpenSearchServer, case: str, tmp_path: Path) -> None:
    check_sink(case, lambda: OpenSearchTarget(server), tmp_path)


@pytest.mark.server
@pytest.mark.crash
def test_documents_follow_the_stream(server: OpenSearchServer, tmp_path: Path) -> None:
    """One test, since the server takes long to start: upsert, repeat, order, poison, lineage, kills and an outage."""
    sink = OpenSearch(server.url, index="orders", settings=SETTINGS)
    first = batch(1, [("a", {"n": 1}), ("b", {"n": 1}), ("a", {"n": 2}), ("c", None)])
    assert not sink.open(context(tmp_path)).write(first)
    assert (document(server, "orders", "a"), document(server, "orders", "b")) == ({"n": 2}, {"n": 1})
    assert not sink.open(context(tmp_path)).write(batch(2, [("a", {"n": 3}), ("b", None)]))
    assert not sink.open(context(tmp_path)).write(first)  # older: changes nothing, also not what was deleted since
    assert (document(server, "orders", "a"), document(server, "orders", "b")) == ({"n": 3}, None)

    rows = [("a", {"n": "many"}), (None, {"n": 1}), ("d", 7), ("x" * 513, {"n": 1}), ("e", {"n": 5})]
    problems = sink.open(context(tmp_path)).write(batch(3, rows))
    assert {problem.record.offset: problem.error.partition(":")[0] for problem in problems} == {
        3001: "the record has no key; set one with select_key",
        3002: "7 has no named fields; map it to a dict or a struct first",
        3003: "the key has more than 512 bytes, the maximum of a document's id",
        3000: "status 400",
    }
    assert document(server, "orders", "e") == {"n": 5}

    assert not sink.open(context(tmp_path)).write(batch(9, [("a", {"n": 4})], lineage="second"))
    assert document(server, "orders", "a") == {"n": 4}

    kills = write_with_kills(
        OpenSearch(server.url, index="killed-{topic}"), tmp_path / "writer", batches=30, kills=5, seed=SEED
    )
    assert kills > 0
    last = numbered(30)
    assert [document(server, "killed-totals", record.key) for record in last.records] == [
        record.value for record in last.records
    ]

    wrong = {"mappings": {"dynamic": "perhaps"}}
    with pytest.raises(ConnectorError, match="refused a request of sink 'out' with status 400"):
        OpenSearch(server.url, index="orders2", settings=wrong).open(context(tmp_path)).write(first)
    writer = sink.open(context(tmp_path))
    server.stop()
    with pytest.raises(TargetUnavailableError, match="cannot be reached"):
        writer.write(batch(10, [("a", {"n": 6})]))
    server.start()
    assert not writer.write(batch(10, [("a", {"n": 6})]))
    assert document(server, "orders", "a") == {"n": 6}


def test_a_busy_server_gets_the_batch_later(tmp_path: Path) -> None:
    with receiver() as target:
        target.answers = [(429, {})]
        with pytest.raises(TargetUnavailableError, match="status 429"):
            OpenSearch(target.url, index="orders").open(context(tmp_path)).write(batch(1, [("a", {"n": 1})]))


def test_settings_are_checked() -> None:
    with pytest.raises(DefinitionError, match="in plain text"):
        OpenSearch("http://search:9200", index="orders", password=Secret.env("PASSWORD"))
    with pytest.raises(DefinitionError, match="needs the name of one index"):
        OpenSearch("http://search:9200", index="{topic}", settings={})
