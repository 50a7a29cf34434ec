"""PAUSE, RESUME and TERMINATE: what stops, what goes on, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.assembling import assemble, local_loop

from millstream import App
from millstream.batch.journal import Journal
from millstream.batch.pausing import forget_removed, read_pauses
from millstream.broker import Broker, TopicConfig
from millstream.errors import DefinitionError
from millstream.foundation.paths import journal_dir, state_dir
from millstream.producer import Producer
from millstream.queries.answers import Message
from millstream.queries.session import Session

SQL = """
    CREATE STREAM rides (id INT KEY, zone STRING) WITH (KAFKA_TOPIC = 'rides', VALUE_FORMAT = 'JSON');
    CREATE STREAM fares (id INT KEY, zone STRING) WITH (KAFKA_TOPIC = 'fares', VALUE_FORMAT = 'JSON');
    CREATE TABLE zones AS SELECT zone, COUNT(*) AS n FROM rides GROUP BY zone EMIT CHANGES;
    CREATE TABLE minutes AS SELECT zone, COUNT(*) AS n FROM rides
        WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 0 SECONDS) GROUP BY zone EMIT FINAL;
    CREATE STREAM copies AS SELECT * FROM fares;
    INSERT INTO copies SELECT * FROM fares WHERE zone = 'X';
    CREATE STREAM again AS SELECT * FROM copies;
"""


class Running:
    """A SQL app whose batches run in this process whenever a test asks for them."""

    def __init__(self, data_dir: Path, sql: str = SQL) -> None:
        self.app = App("taxi", data_dir=data_dir)
        self.app.sql(sql)
        self.broker: Broker = self.app.broker
        for topic in (*self.app.plan.source_topics, *self.app.plan.sink_topics):
            if topic not in self.broker.topic_names():
                self.broker.create_topic(topic, TopicConfig(partitions=2))
        self.session = Session(lambda: self.broker, published=self.app.published_sql, control=self.app.queries)

    def send(self, topic: str, zone: str, time: int = 0) -> None:
        with Producer(self.broker) as producer:
            producer.send(topic, {"ZONE": zone}, key=b"\0\0\0\1", timestamp=time)

    def catch_up(self) -> None:
        journal = Journal(journal_dir(self.app.data_dir, "taxi"))
        try:
            local_loop(assemble(self.app, self.broker), journal).run("caught-up")
        finally:
            journal.close()

    def written(self, topic: str) -> list[Any]:
        ends = enumerate(self.broker.offsets(topic))
        chunks = (chunk for number, each in ends for chunk in self.broker.read(topic, number, each.begin, each.end))
        return [value for chunk in chunks for value in chunk.block.column(1).to_pylist()]

    def message(self, text: str) -> str:
        *_, last = self.session.execute(text)
        assert isinstance(last.answer, Message)
        return last.answer.text

    def states(self) -> dict[str, str]:
        return dict(self.app.queries.states())


@pytest.fixture
def taxi(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path)
    yield running
    running.session.close()


def test_a_paused_query_goes_on_exactly_where_it_stood(taxi: Running, tmp_path: Path) -> None:
    taxi.send("rides", "A", 1)
    taxi.catch_up()
    before = taxi.written("ZONES")
    assert taxi.message("PAUSE zones, minutes;").startswith("ZONES, MINUTES pause after the batch")
    taxi.send("rides", "A", 2)
    taxi.send("rides", "B", 60_000)  # closes the first minute
    taxi.send("fares", "X", 600_000)  # another part of the app goes on, and its time does not touch the paused one
    taxi.catch_up()
    assert taxi.written("ZONES") == before
    assert taxi.written("MINUTES") == []
    assert len(taxi.written("COPIES")) == 2
    again = Running(tmp_path)  # a restart
    again.catch_up()
    assert again.written("ZONES") == before
    again.message("RESUME zones, minutes;")
    again.catch_up()
    assert sorted(again.written("ZONES")) == [b'{"N":1}', b'{"N":1}', b'{"N":2}']
    assert again.written("MINUTES") == [b'{"N":2}']
    again.session.close()


def test_a_query_that_reads_the_output_of_a_paused_one_goes_on(taxi: Running) -> None:
    taxi.send("fares", "A")
    taxi.catch_up()
    taxi.message("PAUSE again;")
    taxi.send("fares", "B")
    taxi.catch_up()
    assert (len(taxi.written("COPIES")), len(taxi.written("AGAIN"))) == (2, 1)
    taxi.message("RESUME again; PAUSE copies, `COPIES-from-FARES`;")
    taxi.catch_up()
    assert len(taxi.written("AGAIN")) == 2


def test_queries_that_share_their_input_have_to_be_named_together(taxi: Running) -> None:
    with pytest.raises(DefinitionError, match="applies to MINUTES as well") as caught:
        taxi.message("PAUSE zones;")
    assert "name all of them: PAUSE ZONES, MINUTES\n" in str(caught.value)
    with pytest.raises(DefinitionError) as caught:
        taxi.message("PAUSE copies;")
    assert "name all of them: PAUSE COPIES, `COPIES-from-FARES`\n" in str(caught.value)
    assert set(taxi.states().values()) == {"RUNNING"}


def test_an_app_pauses_as_a_whole(taxi: Running) -> None:
    assert taxi.app.queries.pause() == "app taxi pauses after the batch that is planned, also over restarts"
    taxi.send("rides", "A")
    taxi.catch_up()
    assert taxi.written("ZONES") == []
    assert set(taxi.states().values()) == {"PAUSED"}
    with pytest.raises(DefinitionError, match="all of app taxi is paused"):
        taxi.message("RESUME zones, minutes;")
    assert taxi.message("RESUME ALL;") == "app taxi resumes where it stopped"
    taxi.catch_up()
    assert len(taxi.written("ZONES")) == 1


def test_a_terminated_query_cannot_be_resumed_and_is_forgotten_with_its_statement(taxi: Running) -> None:
    text = taxi.message("EXPLAIN TERMINATE again;")
    assert "AGAIN stops for good" in text
    assert "the topics of AGAIN stay" in text
    assert taxi.states()["AGAIN"] == "RUNNING"
    assert taxi.message("TERMINATE again;") == text
    with pytest.raises(DefinitionError, match="was terminated and cannot be resumed"):
        taxi.message("RESUME again;")
    taxi.message("PAUSE ALL; RESUME ALL; PAUSE again;")
    assert taxi.states()["AGAIN"] == "TERMINATED"
    path = state_dir(taxi.app.data_dir, "taxi")
    assert "AGAIN" in forget_removed(path, {"AGAIN": ("COPIES",)}).queries
    assert forget_removed(path, {"ZONES": ("rides",)}).queries == {}
    assert read_pauses(path).queries == {}
    assert taxi.states()["AGAIN"] == "RUNNING"


def test_show_queries_lists_states(taxi: Running) -> None:
    taxi.message("PAUSE again;")
    *_, last = taxi.session.execute("SHOW QUERIES;")
    assert [row[:3] for row in last.answer.rows] == [  # type: ignore[union-attr]
        ["ZONES", "ZONES", "RUNNING"],
        ["MINUTES", "MINUTES", "RUNNING"],
        ["COPIES", "COPIES", "RUNNING"],
        ["COPIES-from-FARES", "COPIES", "RUNNING"],
        ["AGAIN", "AGAIN", "PAUSED"],
    ]


def test_unknown_queries_and_sessions_without_an_app_are_refused(taxi: Running) -> None:
    with pytest.raises(DefinitionError, match="app taxi has no query NOTHING"):
        taxi.message("PAUSE nothing;")
    with pytest.raises(DefinitionError, match="PAUSE needs an app"):
        list(Session(lambda: taxi.broker).execute("PAUSE ALL;"))


def test_steps_of_python_that_share_a_topic_pause_only_with_the_app(tmp_path: Path) -> None:
    app = App("mixed", data_dir=tmp_path)
    rides = app.stream("rides", value=dict[str, int])
    rides.to("copy")
    app.sql(
        "CREATE STREAM s (v INT) WITH (KAFKA_TOPIC = 't', VALUE_FORMAT = 'JSON'); CREATE STREAM o AS SELECT * FROM s;"
    )
    app.stream("t2").to("x")
    assert app.queries.together() == {"O": ["O"]}
    app.sql("SELECT * FROM s;").to("python")
    with pytest.raises(DefinitionError, match="would also stop steps of Python"):
        app.queries.pause("O")
    app.queries.pause()
    assert app.queries.states() == {"O": "PAUSED"}
