"""The dashboard and the API for an app on Kafka: every page, records, groups, dead letters, changes."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.kafka.conftest import settle
from tests.kafka.running import run_to_end
from tests.serve.conftest import START, Served, serving

from millstream import App, Config
from millstream.batch.journal import Journal
from millstream.broker import TopicConfig
from millstream.foundation.paths import journal_dir
from millstream.foundation.storage import close_environments
from millstream.kafka import KafkaBroker
from millstream.plan.layout import Layout
from millstream.producer import Producer
from millstream.records import TopicPartition
from millstream.serve.address import WebAddress
from millstream.serve.server import WebServer
from millstream.tables.opening import catalog_of
from millstream.testing.kafka import Cluster

APP = "dashboard-app"
RIDES, VENDORS, RATIOS = "dashboard-rides", "dashboard-vendors", "dashboard-ratios"
TIPS = "dashboard-tips"  # tests may write to it


def rides_app(url: str, data_dir: Path) -> App:
    """Count rides per vendor; divide by an amount that can be zero."""
    config = Config(on_error="dead_letter", on_decode_error="dead_letter")
    app = App(APP, broker=url, data_dir=data_dir, config=config)
    rides = app.stream(RIDES, value=dict)
    rides.group_by(lambda ride: ride["vendor"]).count(name="per_vendor").to_stream().to(VENDORS)
    rides.map_values(lambda ride: 100 / ride["amount"]).to(RATIOS)
    app.stream(TIPS, value=int).to(RATIOS)
    return app


@pytest.fixture(scope="module")
def data_dir(cluster: Cluster, kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run an app over sixty rides, two of them without an amount, an invalid ride and an invalid tip."""
    data_dir = tmp_path_factory.mktemp("dashboard")
    data_dir.chmod(0o700)
    for topic in (RIDES, VENDORS, RATIOS, TIPS, f"{APP}.dead-letters"):
        kafka.create_topic(topic, TopicConfig(partitions=2))
    with Producer(kafka) as rides:
        for number in range(60):
            ride = {"vendor": f"<b>v{number % 3}</b>", "amount": number % 30}
            rides.send(RIDES, ride, key=f"r{number}", timestamp=START + number * 1000)
    with Producer(kafka, value=bytes) as raw:
        raw.send(RIDES, b"{not json <script>", key="poison", timestamp=START + 60_000)
        raw.send(TIPS, b"generous", key="tip", timestamp=START)
    kafka.commit("dashboard-audit", {TopicPartition(RIDES, 0): 3})
    app = rides_app(cluster.url, data_dir)
    layout = Layout.of(app.plan, {RIDES: 2, TIPS: 2})
    with closing(Journal(journal_dir(data_dir, APP))) as journal:
        journal.write_catalog(catalog_of(layout))
    run_to_end(app, kafka)
    settle(kafka, cluster.bootstrap, VENDORS, RATIOS, f"{APP}.dead-letters")
    return data_dir


@pytest.fixture(scope="module")
def served(cluster: Cluster, data_dir: Path) -> Iterator[Served]:
    server = serving(data_dir, broker_url=cluster.url)
    yield server
    server.site.watch.stop()
    server.site.directory.close()
    close_environments(data_dir)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", APP),
        (f"/topology?app={APP}", "per_vendor"),
        ("/topics", RIDES),
        (f"/topics/{RIDES}", "&lt;script&gt;"),
        (f"/topics/{RIDES}?where=value.amount=7", "r37"),
        (f"/topics/{VENDORS}?view=table", "&lt;b&gt;v1&lt;/b&gt;"),
        ("/tables", "per_vendor"),
        (f"/tables/{APP}/per_vendor", "&lt;b&gt;v2&lt;/b&gt;"),
        (f"/time?app={APP}", RIDES),
        ("/groups", "dashboard-audit"),
        ("/groups/dashboard-audit", RIDES),
        (f"/dead-letters?app={APP}", "division by zero"),
        ("/alerts", "Alerts"),
    ],
)
def test_every_page_shows_the_app(served: Served, path: str, expected: str) -> None:
    assert expected in served.page(path)


def test_topics_are_listed_with_their_groups_and_without_sizes(served: Served) -> None:
    topics = {topic["topic"]: topic for topic in served.get("/api/topics")}
    rides = topics[RIDES]
    assert (rides["partitions"], rides["records"], rides["bytes"]) == (2, 61, None)
    assert {group["group"] for group in rides["groups"]} == {APP, "dashboard-audit"}
    assert {group["group"]: group["lag"] for group in rides["groups"]}[APP] == 0
    assert topics[VENDORS]["groups"] == []  # the groups of markers are not listed
    detail = served.get(f"/api/topics/{RIDES}")
    assert [partition["bytes"] for partition in detail["partitions"]] == [None, None]


def test_records_are_read_by_offset_time_and_key(served: Served) -> None:
    path = f"/api/topics/{RIDES}/records"
    newest = served.get(path, limit=500)["records"]
    assert len(newest) == 61
    first = served.get(path, partition=0, start="0", limit=2)["records"]
    assert [record["offset"] for record in first] == [0, 1]
    late = served.get(path, start="2026-01-01T06:00:50Z", limit=500)["records"]
    assert {record["key"] for record in late} == {"poison", *(f"r{number}" for number in range(50, 60))}
    (record,) = served.get(path, key="r17")["records"]
    assert record["value"] == {"vendor": "<b>v2</b>", "amount": 17}


def test_groups_are_listed_and_reset_after_a_dry_run(served: Served, kafka: KafkaBroker) -> None:
    names = [group["group"] for group in served.get("/api/groups")]
    assert {APP, "dashboard-audit"} <= set(names)
    assert not [name for name in names if name.endswith(".eos")]
    reset = "/api/groups/dashboard-audit/reset"
    planned = served.post(reset, {"to": "latest", "topics": [RIDES]}).json()
    assert (planned["executed"], planned["moves"][0]["before"]) == (False, 3)
    assert kafka.committed("dashboard-audit") == {TopicPartition(RIDES, 0): 3}
    assert served.post(reset, {"to": "latest", "topics": [RIDES], "execute": True}).json()["executed"]
    ends = {TopicPartition(RIDES, number): offsets.end for number, offsets in enumerate(kafka.offsets(RIDES))}
    assert kafka.committed("dashboard-audit") == ends
    refused = served.post(f"/api/groups/{APP}/reset", {"to": "earliest"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "state")
    kafka.commit("dashboard-audit", {TopicPartition(RIDES, 0): 3})


def test_a_topic_is_created_written_changed_and_deleted(served: Served) -> None:
    name = "dashboard-made"
    assert served.post("/api/topics", {"topic": name, "partitions": 3}).status_code == 200
    written = served.post(f"/api/topics/{name}/records", {"key": "a", "value": {"n": 1}}).json()
    assert (written["topic"], written["offset"]) == (name, 0)
    assert [record["value"] for record in served.get(f"/api/topics/{name}/records")["records"]] == [{"n": 1}]
    assert served.post(f"/api/topics/{name}/settings", {"retention_ms": 60_000}).status_code == 200
    assert served.get(f"/api/topics/{name}")["config"]["retention_ms"] == 60_000
    assert served.post("/api/topics", {"topic": name}).status_code == 409
    assert served.post(f"/api/topics/{name}/delete", {"confirm": name}).json() == {"done": f"deleted {name}"}
    assert served.client.get(f"/api/topics/{name}").status_code == 404


def test_letters_are_listed_and_one_is_sent_back(served: Served, cluster: Cluster, kafka: KafkaBroker) -> None:
    listing = served.get(f"/api/apps/{APP}/dead-letters")
    assert len(listing["dead_letters"]) == 4
    assert {"ZeroDivisionError" in letter["error"] for letter in listing["dead_letters"]} == {True, False}
    assert listing["waiting"] >= 4  # transaction markers have offsets too
    before = sum(offsets.end for offsets in kafka.offsets(TIPS))
    position = next(letter["position"] for letter in listing["dead_letters"] if letter["topic"] == TIPS)
    sent = served.post(f"/api/apps/{APP}/dead-letters/replay", {"positions": [position]})
    assert sent.json()["sent"] == {TIPS: 1}
    settle(kafka, cluster.bootstrap, TIPS)
    assert sum(offsets.end for offsets in kafka.offsets(TIPS)) > before


def test_new_records_and_progress_are_streamed(cluster: Cluster, kafka: KafkaBroker, data_dir: Path) -> None:
    kafka.create_topic("dashboard-live", TopicConfig(partitions=1))
    server = WebServer(data_dir, cluster.url, WebAddress(port=0), requires_token=False)
    tail = urllib.request.urlopen(f"{server.url}/api/live/topics/dashboard-live?seconds=60", timeout=60)
    progress = urllib.request.urlopen(f"{server.url}/api/live/progress?seconds=60", timeout=60)
    try:
        assert tail.readline().startswith(b": alive")
        assert progress.readline().startswith(b"event: progress")
        with Producer(kafka) as producer:
            producer.send("dashboard-live", {"n": 1}, key="a")
        line = next(line for line in tail if line.startswith(b"data: "))
        assert [record["value"] for record in json.loads(line[6:])["records"]] == [{"n": 1}]
        updates = (json.loads(line[6:]) for line in progress if line.startswith(b"data: "))
        assert next(update for update in updates if update["topics"]["dashboard-live"] == 1)
    finally:
        server.close()
        tail.close()
        progress.close()


def test_an_app_is_shown_without_its_broker(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.kafka.clients.REQUEST_SECONDS", 0.5)
    alone = serving(data_dir, broker_url="kafka://127.0.0.1:1")
    refused = alone.client.get("/api/topics")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "broker_unavailable")
    assert alone.client.get("/topics").status_code == 503
    assert alone.get("/api/tables/per_vendor/<b>v1</b>")["rows"][0]["value"] >= 20
    (app,) = alone.get("/api/apps")
    assert (app["app"], app["lag"]) == (APP, 0)
    assert APP in alone.page("/")
    assert "per_vendor" in alone.page(f"/topology?app={APP}")
    alone.site.directory.close()
