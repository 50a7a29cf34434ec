"""Pull queries: rows of stored tables by key, range and window, and of topics up to their end."""

from collections.abc import Iterator

import pytest
from tests.queries.running import Bound, bound

from millstream.errors import QueryLimitError, SqlError
from millstream.queries.limits import Budget, Limits


@pytest.fixture
def taxi() -> Iterator[Bound]:
    with bound() as taxi:
        for number, zone in enumerate(["Mitte", "Wedding", "Mitte", "Spandau", "Mitte"]):
            taxi.ride(zone, 1.5, key=number % 2, timestamp=number * 400)
        yield taxi


def test_a_key_is_looked_up(taxi: Bound) -> None:
    result = taxi.result("SELECT * FROM zones WHERE zone = 'Mitte';")
    assert result.rows == [["Mitte", 3, 4500.0]]
    assert [(column.name, str(column.type), column.is_key) for column in result.columns] == [
        ("ZONE", "STRING", True),
        ("N", "BIGINT", False),
        ("METERS", "DOUBLE", False),
    ]
    assert taxi.rows("SELECT * FROM zones WHERE zone = 'Tegel';") == []


@pytest.mark.parametrize(
    ("where", "read", "zones"),
    [
        ("zone = 'Mitte'", "1 key", ["Mitte"]),
        ("zone IN ('Mitte', 'Spandau', 'Mitte', 'Tegel')", "3 keys", ["Mitte", "Spandau"]),
        ("zone > 'Mitte' AND n < 9", "a range of keys", ["Spandau", "Wedding"]),
        ("zone BETWEEN 'M' AND 'N'", "a range of keys", ["Mitte"]),
        ("'Spandau' >= zone", "a range of keys", ["Mitte", "Spandau"]),
        ("zone = 'Mitte' AND n > 5", "1 key", []),
        ("n > 1", "all rows", ["Mitte"]),
        ("zone = 'Mitte' OR meters < 2000", "all rows", ["Mitte", "Spandau", "Wedding"]),
        ("LEN(zone) = 7 AND zone LIKE 'W%'", "all rows", ["Wedding"]),
    ],
)
def test_where_decides_what_is_read_and_what_is_returned(taxi: Bound, where: str, read: str, zones: list[str]) -> None:
    query = f"SELECT zone FROM zones WHERE {where} ORDER BY zone"
    assert [zone for [zone] in taxi.rows(f"{query};")] == zones
    assert f"read {read} of" in str(taxi.rows(f"EXPLAIN {query};"))


def test_the_last_column_of_a_key_of_several_is_needed_for_a_look_up(taxi: Bound) -> None:
    assert taxi.rows("SELECT n FROM by_both WHERE zone = 'Mitte' AND id = 0;") == [[3]]
    assert "read 1 key" in str(taxi.rows("EXPLAIN SELECT n FROM by_both WHERE zone = 'Mitte' AND id = 0;"))
    assert "read all rows" in str(taxi.rows("EXPLAIN SELECT n FROM by_both WHERE zone = 'Mitte';"))


def test_order_limit_and_offset(taxi: Bound) -> None:
    assert taxi.rows("SELECT zone, n FROM zones ORDER BY n DESC, zone DESC;") == [
        ["Mitte", 3],
        ["Wedding", 1],
        ["Spandau", 1],
    ]
    assert taxi.rows("SELECT zone FROM zones ORDER BY 1 LIMIT 1 OFFSET 1;") == [["Spandau"]]
    assert taxi.rows("SELECT UCASE(zone) AS z FROM zones ORDER BY z LIMIT 0;") == []
    assert len(taxi.rows("SELECT * FROM zones LIMIT 2;")) == 2


def test_null_is_ordered_last_and_with_desc_first() -> None:
    with bound() as taxi:
        taxi.driver.topic("drivers").pipe({"ZONE": None}, key="ann")
        taxi.driver.topic("drivers").pipe({"ZONE": "Mitte"}, key="bob")
        assert taxi.rows("SELECT name FROM drivers ORDER BY zone;") == [["bob"], ["ann"]]
        assert taxi.rows("SELECT name FROM drivers ORDER BY zone DESC;") == [["ann"], ["bob"]]


def test_windows_are_read_by_key_and_start_with_what_is_not_stored_applied(taxi: Bound) -> None:
    columns = "SELECT zone, WINDOWSTART AS s, tens FROM seconds"
    assert sorted(taxi.rows(f"{columns};")) == [
        ["Mitte", 0, 20],
        ["Mitte", 1000, 10],
        ["Spandau", 1000, 10],
        ["Wedding", 0, 10],
    ]
    assert taxi.rows(f"{columns} WHERE zone = 'Mitte' AND WINDOWSTART > 0;") == [["Mitte", 1000, 10]]
    assert sorted(taxi.rows(f"{columns} WHERE WINDOWSTART >= 1000;")) == [["Mitte", 1000, 10], ["Spandau", 1000, 10]]
    assert taxi.rows(f"{columns} WHERE zone = 'Mitte' AND WINDOWSTART < '1970-01-01T00:00:01';") == [["Mitte", 0, 20]]
    assert taxi.rows("SELECT * FROM seconds WHERE zone = 'Wedding';") == [["Wedding", 0, 1000, 10]]


def test_a_row_that_having_leaves_out_is_not_returned(taxi: Bound) -> None:
    for _ in range(3):
        taxi.ride("Tegel", timestamp=5000)
    assert taxi.rows("SELECT * FROM seconds WHERE zone = 'Tegel';") == []


def test_the_time_of_a_row_is_a_column(taxi: Bound) -> None:
    assert taxi.rows("SELECT zone, ROWTIME FROM zones WHERE zone = 'Mitte';") == [["Mitte", 1600]]


def test_streams_and_declared_tables_are_read_from_their_topics_up_to_the_end(taxi: Bound) -> None:
    drivers = taxi.driver.topic("drivers")
    drivers.pipe({"ZONE": "Mitte"}, {"ZONE": "Tegel"}, key="ann")
    drivers.pipe({"ZONE": "Mitte"}, None, key="bob")
    assert taxi.rows("SELECT * FROM drivers;") == [["ann", "Tegel"]]
    assert sorted(taxi.rows("SELECT id, ROWTIME FROM rides WHERE zone = 'Mitte';")) == [[0, 0], [0, 800], [0, 1600]]


def test_groups_and_joins_are_computed_for_the_query(taxi: Bound) -> None:
    assert taxi.rows("SELECT id, MAX(km) AS km FROM rides GROUP BY id ORDER BY id;") == [[0, 1.5], [1, 1.5]]
    assert taxi.rows("SELECT COUNT(*) AS n FROM rides;") == [[5]]
    assert taxi.rows("SELECT zone, COUNT(*) AS n FROM rides GROUP BY zone ORDER BY COUNT(*) DESC LIMIT 1;") == [
        ["Mitte", 3]
    ]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT nn FROM zones;", "line 1, column 8: column NN of SELECT is unknown; did you mean N?"),
        ("SELECT * FROM zone;", "line 1, column 15: stream or table ZONE is unknown; did you mean ZONES?"),
        ("SELECT * FROM zones WHERE n = 'x';", "line 1, column 29"),
        ("SELECT * FROM zones WHERE COUNT(*) = 1;", "COUNT cannot be used in WHERE"),
        ("SELECT * FROM zones ORDER BY 9;", "line 1, column 30: there is no column 9; use 1 to 3"),
        ("SELECT * FROM zones ORDER BY ARRAY[n];", "has no order"),
        ("SELECT * FROM zones LIMIT x;", "expected a whole number"),
        ("SELECT * FROM zones ORDER BY n EMIT CHANGES;", "ORDER BY needs a query that ends"),
        ("SELECT *\nFROM zones\nWHERE km > 1;", "line 3, column 7"),
    ],
)
def test_an_invalid_query_is_refused_with_its_place(taxi: Bound, query: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        taxi.rows(query)
    assert message in str(caught.value)
    assert "^" in str(caught.value)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(rows=2), "returns 3 rows, more than 2"),
        (Limits(bytes=20), "more than 20 bytes"),
        (Limits(read=2), "reads more than 2 rows"),
        (Limits(seconds=0), "takes longer than 0 s"),
    ],
)
@pytest.mark.parametrize("table", ["zones", "rides"])
def test_a_query_beyond_a_limit_is_refused_with_the_limit(limits: Limits, message: str, table: str) -> None:
    with bound(limits=limits) as taxi:
        for zone in ("Mitte", "Wedding", "Spandau"):
            taxi.ride(zone)
        with pytest.raises(QueryLimitError, match=message) as caught:
            taxi.rows(f"SELECT * FROM {table};")
        assert caught.value.facts["limit"] in (limits.rows, limits.bytes, limits.read, limits.seconds)
        if limits.rows == 2:
            assert len(taxi.rows(f"SELECT * FROM {table} LIMIT 2;")) == 2


@pytest.mark.slow
def test_a_query_over_large_records_ends_before_it_holds_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is checked while a batch is read: 200 records of 10 kB are 2 MB, of which 200 kB may be read."""
    with bound(limits=Limits(read_bytes=200_000)) as taxi:
        read = 0
        add = Budget.add_read_bytes

        def counting(budget: Budget, count: int) -> None:
            nonlocal read
            read += count
            add(budget, count)

        monkeypatch.setattr(Budget, "add_read_bytes", counting)
        for _ in range(200):
            taxi.ride("x" * 10_000)
        with pytest.raises(QueryLimitError, match="reads more than 200,000 bytes"):
            taxi.rows("SELECT COUNT(*) FROM rides GROUP BY km;")
        assert read < 1_200_000
