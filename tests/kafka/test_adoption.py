"""A running Kafka Streams application is stopped, and an app goes on with its counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kafka.conftest import settle
from tests.kafka.hosts import Host
from tests.kafka.java_programs import running
from tests.waiting import wait_until

from millstream import App, Config, session, tumbling
from millstream.admin.adopted_stores import Formats
from millstream.admin.adoption import Choices, execute_adoption, planned_adoption
from millstream.broker import TopicConfig
from millstream.errors import DefinitionError, SerdeError, StateError
from millstream.kafka import KafkaBroker
from millstream.records import TopicPartition
from millstream.serdes import FLOAT64, INT64
from millstream.testing.kafka import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]
MINUTE = 60_000
START = time.time_ns() // (MINUTE * 1_000_000) * MINUTE
"""Kafka Streams' changelogs of windows have a retention, so that old times would be deleted."""
KEYS = [f"k{number}" for number in range(5)]
Feed = Callable[[int, int], None]


def topology(name: str) -> App:
    """The same app as ``java/Moved.java``."""
    app = App(f"{name}-ours", config=Config(partitions=3, caching=False))
    lines = app.stream(f"{name}-in", value=str)
    lines.group_by_key().count(name="counts").to_stream().to(f"{name}-counts", value=INT64)
    words = lines.flat_map_values(str.split).group_by(lambda word: word, name="by-word").count(name="words")
    words.to_stream().to(f"{name}-words", value=INT64)
    lines.group_by_key().windowed_by(tumbling("1 min", grace="1 h")).count(name="per-minute")
    lines.group_by_key().windowed_by(session(gap="2 min", grace="1 h")).count(name="sessions")
    lines.group_by_key().reduce(lambda _first, second: second, name="last")
    users = app.table(f"{name}-users", value=str, name="users")
    lines.join(users, lambda line, user: f"{user}: {line}").to(f"{name}-joined")
    return app


@pytest.fixture
def feed(cluster: Cluster, name: str) -> Feed:
    """Return a function that writes lines ``first`` to ``last``; line N has key kN, and is of minute N / 5."""

    def feed(first: int, last: int) -> None:
        with App("feeder", broker=cluster.url).producer(value=str) as producer:
            for number in range(first, last):
                at = START + MINUTE * (number // 5) + number
                producer.send(f"{name}-in", f"w{number % 7} x", key=KEYS[number % 5], timestamp=at)

    return feed


@pytest.fixture
def app(kafka: KafkaBroker, cluster: Cluster, name: str) -> App:
    for topic in ("in", "users", "counts", "words", "joined"):
        kafka.create_topic(f"{name}-{topic}", TopicConfig(partitions=3))
    with App("feeder", broker=cluster.url).producer(value=str) as producer:
        for key in KEYS:
            producer.send(f"{name}-users", f"user {key}", key=key, timestamp=0)
    return topology(name)


@pytest.fixture
def host(app: App, cluster: Cluster, tmp_path: Path) -> Iterator[Host]:
    host = Host(app, cluster.url, tmp_path / "ours")
    yield host
    host.close()


def values(kafka: KafkaBroker, cluster: Cluster, topic: str) -> dict[str, list[bytes]]:
    """Return the committed values of each key, in order."""
    settle(kafka, cluster.bootstrap, topic)
    result: dict[str, list[bytes]] = {}
    for partition, bounds in enumerate(kafka.offsets(topic)):
        for chunk in kafka.read(topic, partition, bounds.begin, bounds.end):
            for key, value in zip(*(chunk.block.column(number).to_pylist() for number in (0, 1)), strict=True):
                result.setdefault(key.decode(), []).append(value)
    return result


def newest(kafka: KafkaBroker, cluster: Cluster, topic: str) -> dict[str, int]:
    return {key: INT64.decode(counts[-1]) for key, counts in values(kafka, cluster, topic).items()}


def test_counts_go_on_where_java_has_stopped(
    classes: Path,
    cluster: Cluster,
    kafka: KafkaBroker,
    name: str,
    app: App,
    host: Host,
    feed: Feed,
    tmp_path: Path,
) -> None:
    choices = Choices(application=f"{name}-java", stores={"words": "word-store"})
    feed(0, 35)
    with running(classes, "Moved", cluster.bootstrap, name, str(tmp_path / "java"), "exactly_once_v2"):
        wait_until(lambda: newest(kafka, cluster, f"{name}-words").get("x") == 35)
        wait_until(lambda: sum(newest(kafka, cluster, f"{name}-counts").values()) == 35)
        with pytest.raises(StateError, match="is running"):
            planned_adoption(kafka, host.spec, choices)
    wait_until(lambda: not kafka.group(f"{name}-java").members)
    feed(35, 70)

    plan = planned_adoption(kafka, host.spec, choices)
    assert not host.disk.exists() or not list(host.disk.glob("apps/*/journal"))
    assert sum(offset for partition, offset in plan.positions.items() if "-in/" in partition) >= 35
    assert {store.store: store.kind for store in plan.stores} == {
        "counts": "rows", "words": "rows", "per-minute": "windows", "sessions": "sessions", "last": "rows",
        "users": "rows",
    }  # fmt: skip
    adopted, rows = execute_adoption(kafka, host.spec, choices)
    assert adopted == plan
    assert rows == {"counts": 5, "words": 8, "per-minute": 35, "sessions": 5, "last": 5, "users": 5}

    host.run()
    app.data_dir = host.disk
    tables = app.tables
    assert dict(tables["counts"].items()) == dict.fromkeys(KEYS, 14)
    assert dict(tables["words"].items()) == {"x": 70, **{f"w{number}": 10 for number in range(7)}}
    windows = [row for key in KEYS for row in tables["per-minute"].windows(key)]
    assert [row.value for row in windows] == [1] * 70
    sessions = [row for key in KEYS for row in tables["sessions"].windows(key)]
    assert {(row.key.key, row.key.start, row.key.end, row.value) for row in sessions} == {
        (key, START + number, START + 13 * MINUTE + 65 + number, 14) for number, key in enumerate(KEYS)
    }
    assert dict(tables["last"].items()) == {KEYS[number % 5]: f"w{number % 7} x" for number in range(65, 70)}
    # every update of both programs, once and in order
    counts = values(kafka, cluster, f"{name}-counts")
    ours = {key: [INT64.decode(value) for value in updates][-7:] for key, updates in counts.items()}
    assert ours == {key: list(range(8, 15)) for key in KEYS}
    joined = values(kafka, cluster, f"{name}-joined")
    assert {key: len(lines) for key, lines in joined.items()} == dict.fromkeys(KEYS, 14)
    with pytest.raises(StateError, match="has state of its own already"):
        planned_adoption(kafka, host.spec, choices)


def test_an_app_on_another_host_continues_from_its_own_changelogs(
    classes: Path, cluster: Cluster, kafka: KafkaBroker, name: str, app: App, host: Host, feed: Feed, tmp_path: Path
) -> None:
    feed(0, 35)
    with running(classes, "Moved", cluster.bootstrap, name, str(tmp_path / "java"), "at_least_once"):
        wait_until(lambda: newest(kafka, cluster, f"{name}-words").get("x") == 35)
    wait_until(lambda: not kafka.group(f"{name}-java").members)
    choices = Choices(application=f"{name}-java", stores={"words": "word-store"})
    with pytest.raises(DefinitionError, match="the app has no store 'nothing'"):
        planned_adoption(kafka, host.spec, Choices(application=f"{name}-java", stores={"nothing": "counts"}))
    with pytest.raises(StateError, match=f"'words': there is no changelog '{name}-java-words-changelog'"):
        planned_adoption(kafka, host.spec, Choices(application=f"{name}-java"))
    wrong = Formats({}, {"words": FLOAT64, "last": INT64})
    with pytest.raises(SerdeError, match="a row of store 'last' cannot be read"):
        execute_adoption(kafka, host.spec, Choices(application=f"{name}-java", stores=choices.stores, formats=wrong))
    execute_adoption(kafka, host.spec, choices)
    host.run()  # fills its changelogs
    feed(35, 70)
    host.lose_disk()
    host.run()
    app.data_dir = host.disk
    assert dict(app.tables["counts"].items()) == dict.fromkeys(KEYS, 14)
    assert app.tables["words"]["x"] == 70


def test_what_cannot_be_taken_over_is_refused(kafka: KafkaBroker, cluster: Cluster, name: str, host: Host) -> None:
    application = f"{name}-java"
    with pytest.raises(StateError, match=f"there is no group '{application}'"):
        planned_adoption(kafka, host.spec, Choices(application=application))
    kafka.commit(application, {TopicPartition(f"{name}-joined", 0): 0})
    with pytest.raises(StateError, match="has no committed offsets in"):
        planned_adoption(kafka, host.spec, Choices(application=application))
    kafka.create_topic(f"{application}-by-word-repartition", TopicConfig(partitions=3))
    with App("feeder", broker=cluster.url).producer(value=str) as producer:
        producer.send(f"{application}-by-word-repartition", "w0", key="w0")
    with pytest.raises(StateError, match=f"1 record of repartition topic '{application}-by-word-repartition'"):
        planned_adoption(kafka, host.spec, Choices(application=application))
