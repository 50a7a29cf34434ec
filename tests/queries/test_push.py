"""Push queries: rows as they change, from now on or from the beginning, with nothing left behind."""

import tempfile
from pathlib import Path

import pytest
from tests.queries.running import bound

from millstream.errors import SqlError, UnknownTopicError
from millstream.queries.answers import Change, Changes
from millstream.queries.pushing import PushQuery


def drained(changes: Changes) -> list[Change]:
    """Return the rows until there are none for a moment."""
    rows: list[Change] = []
    idle = 0
    while idle < 3:
        taken = changes.take(0.01)
        if taken is None:
            break
        idle = 0 if taken else idle + 1
        rows += taken
    return rows


def test_a_stream_is_shown_from_the_beginning_up_to_the_limit() -> None:
    with bound(partitions=1) as taxi:
        for number in range(5):
            taxi.ride("Mitte", float(number), key=number)
        assert taxi.changed("SELECT km, id FROM rides WHERE km > 0 EMIT CHANGES LIMIT 2;") == [[1.0, 1], [2.0, 2]]
        assert taxi.changed("SELECT id FROM rides EMIT CHANGES LIMIT 2 OFFSET 2;") == [[2], [3]]
        assert taxi.changed("SELECT * FROM rides EMIT CHANGES LIMIT 0;") == []


def test_from_now_on_shows_only_what_arrives_later() -> None:
    with bound() as taxi:
        taxi.ride("Mitte", 1.0)
        changes = taxi.changes("SELECT id, km FROM rides EMIT CHANGES;")
        assert drained(changes) == []
        taxi.ride("Mitte", 2.0, key=7)
        assert [change.values for change in drained(changes)] == [[7, 2.0]]
        changes.close()


def test_a_join_knows_the_rows_that_its_table_had_before() -> None:
    with bound() as taxi:
        taxi.session.catalog.settings["auto.offset.reset"] = "latest"
        drivers = taxi.driver.topic("drivers")
        drivers.pipe({"ZONE": "Mitte"}, key="ann")
        list(
            taxi.session.execute(
                "CREATE STREAM calls (name STRING KEY, n INT)"
                "WITH (KAFKA_TOPIC='calls', VALUE_FORMAT='JSON', PARTITIONS=3);"
                "INSERT INTO calls VALUES ('ann', 1);"
            )
        )
        join = "calls c JOIN drivers d ON c.name = d.name"
        changes = taxi.changes(f"SELECT c.name AS name, n, zone FROM {join} EMIT CHANGES;")
        assert drained(changes) == []
        taxi.message("INSERT INTO calls VALUES ('ann', 2);")
        assert [change.values for change in drained(changes)] == [["ann", 2, "Mitte"]]
        changes.close()


def test_aggregates_are_shown_with_every_change() -> None:
    with bound(partitions=1) as taxi:
        for zone in ("Mitte", "Tegel", "Mitte"):
            taxi.ride(zone, timestamp=1500)
        assert taxi.changed("SELECT zone, COUNT(*) AS n FROM rides GROUP BY zone EMIT CHANGES LIMIT 3;") == [
            ["Mitte", 1],
            ["Tegel", 1],
            ["Mitte", 2],
        ]
        assert taxi.changed("SELECT COUNT(*) AS n FROM rides EMIT CHANGES LIMIT 3;") == [[1], [2], [3]]
        windowed = "SELECT WINDOWSTART, COUNT(*) AS n FROM rides WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY zone"
        assert taxi.changed(f"{windowed} EMIT CHANGES LIMIT 2;") == [[1000, 1], [1000, 1]]
        assert taxi.changed("SELECT * FROM seconds EMIT CHANGES LIMIT 1;") == [["Mitte", 1000, 2000, 10]]


def test_a_deleted_row_is_shown_with_its_key() -> None:
    with bound(partitions=1) as taxi:
        taxi.driver.topic("drivers").pipe({"ZONE": "Mitte"}, None, key="ann")
        changes = taxi.changes("SET 'auto.offset.reset' = 'earliest'; SELECT zone, name FROM drivers EMIT CHANGES;")
        assert drained(changes) == [Change(["Mitte", "ann"]), Change([None, "ann"], is_deleted=True)]
        changes.close()


def test_a_table_function_makes_several_rows() -> None:
    with bound(partitions=1) as taxi:
        taxi.ride("Mitte", 2.0, key=4)
        exploded = "SELECT id, EXPLODE(ARRAY[1, 2]) AS item, EXPLODE(ARRAY[3, 4]) + 1 AS other FROM rides"
        assert taxi.changed(f"{exploded} EMIT CHANGES LIMIT 2;") == [[4, 1, 4], [4, 2, 5]]


def test_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with bound() as taxi:
        taxi.ride("Mitte")
        topics, groups = taxi.driver.topics, taxi.driver.broker.group_names()
        changes = taxi.changes(
            "SET 'auto.offset.reset' = 'earliest'; SELECT km, COUNT(*) AS n FROM rides GROUP BY km EMIT CHANGES;"
        )
        assert [change.values for change in drained(changes)] == [[1.0, 1]]
        assert list(tmp_path.iterdir()), "the state is where this test looks for it"
        changes.close()
        assert (taxi.driver.topics, taxi.driver.broker.group_names()) == (topics, groups)
        assert not list(tmp_path.iterdir())


def test_records_that_cannot_be_read_are_skipped_and_counted() -> None:
    with bound(partitions=1) as taxi:
        list(
            taxi.session.execute(
                "CREATE STREAM calls (id INT KEY, n INT) WITH (KAFKA_TOPIC='calls', VALUE_FORMAT='JSON', PARTITIONS=1);"
                "CREATE STREAM text (v STRING) WITH (KAFKA_TOPIC='calls', VALUE_FORMAT='KAFKA');"
                "INSERT INTO text VALUES ('{'); INSERT INTO calls VALUES (1, 2);"
            )
        )
        result = taxi.result("SELECT * FROM calls;")
        assert result.rows == [[1, 2]]
        assert result.note == "1 records could not be read"


def test_a_missing_topic_and_an_invalid_query_are_refused() -> None:
    with bound() as taxi:
        taxi.message("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='nowhere', VALUE_FORMAT='JSON');")
        with pytest.raises(UnknownTopicError, match="nowhere"):
            taxi.changes("SELECT * FROM s EMIT CHANGES;")
        with pytest.raises(SqlError, match="line 1, column 8"):
            taxi.changes("SELECT b FROM s EMIT CHANGES;")


def test_the_keys_that_a_query_keeps_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.queries.pushing.MAX_KNOWN_ROWS", 2)
    with bound(partitions=1) as taxi:
        query = "SELECT name FROM drivers WHERE zone <> 'Mitte' EMIT CHANGES;"
        changes = taxi.changes(f"SET 'auto.offset.reset' = 'earliest'; {query}")
        for key in ("ann", "bob"):
            taxi.driver.topic("drivers").pipe({"ZONE": "Wedding"}, key=key)
        taxi.driver.topic("drivers").pipe({"ZONE": "Mitte"}, key="never")
        assert drained(changes) == [Change(["ann"]), Change(["bob"])]
        for key in ("cyd", "dan"):
            taxi.driver.topic("drivers").pipe({"ZONE": "Wedding"}, key=key)
        taxi.driver.topic("drivers").pipe(None, key="ann")
        assert drained(changes) == [Change(["cyd"]), Change(["dan"]), Change(["ann"], is_deleted=True)]
        assert isinstance(changes, PushQuery)
        assert len(changes._rows) == 0
        changes.close()
