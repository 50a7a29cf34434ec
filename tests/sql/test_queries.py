"""SELECT on streams and tables, by the records that it writes."""

from typing import Any

import pytest
from tests.sql.running import rows, run

from millstream import App
from millstream.testing import TestDriver

RIDES = "CREATE STREAM rides (id INT KEY, zone STRING, km DOUBLE) WITH (KAFKA_TOPIC='rides', VALUE_FORMAT='JSON');"
USERS = (
    "CREATE TABLE users (id INT PRIMARY KEY, name STRING, city STRING) WITH (KAFKA_TOPIC='users', VALUE_FORMAT='JSON');"
)


def ride(key: Any, zone: str | None, km: float | None = 1.0, time: int = 0) -> tuple[Any, ...]:
    return ("rides", key, {"ZONE": zone, "KM": km}, time)


def test_projection_and_filter() -> None:
    text = RIDES + "CREATE STREAM far AS SELECT id, UCASE(zone) AS zone, km * 1000 AS m FROM rides WHERE km > 2;"
    assert rows(text, "FAR", [ride(1, "a", 3.0), ride(2, "b", 1.0)]) == [(1, {"ZONE": "A", "M": 3000.0})]


def test_a_null_value_passes_a_projection_and_fails_a_filter() -> None:
    copy = RIDES + "CREATE STREAM o AS SELECT * FROM rides %s;"
    assert rows(copy % "", "O", [("rides", 1, None)]) == [(1, None)]
    assert rows(copy % "WHERE TRUE", "O", [("rides", 1, None)]) == []


def test_an_error_in_a_column_makes_only_that_column_null_and_is_counted() -> None:
    app = App("sql")
    app.sql(RIDES + "CREATE STREAM o AS SELECT id, zone, id / (id - 1) AS q, PARSE_DATE(zone, 'yyyy') AS d FROM rides;")
    with TestDriver(app) as driver:
        driver.topic("rides").pipe({"ZONE": "x", "KM": 1.0}, key=1)
        assert driver.topic("O").read_values() == [{"ZONE": "x", "Q": None, "D": None}]
        [report] = [report for report in driver.reports if report.value_errors]
        assert sum(report.value_errors.values()) == 2
        assert any("ZeroDivisionError" in sample for sample in report.error_samples.values())


def test_partition_by_sets_the_key() -> None:
    text = RIDES + "CREATE STREAM o AS SELECT * FROM rides PARTITION BY zone;"
    assert rows(text, "O", [ride(1, "a"), ride(2, None)]) == [("a", {"KM": 1.0, "ID": 1}), (None, {"KM": 1.0, "ID": 2})]


def test_partition_by_several_columns_makes_a_key_of_several_columns() -> None:
    text = RIDES + "CREATE STREAM o WITH (KEY_FORMAT='JSON') AS SELECT id, zone, km FROM rides PARTITION BY zone, id;"
    [record] = run(text, "O", [ride(7, "a")])
    assert (record.key, record.value) == (("a", 7), {"KM": 1.0})


def test_explode_repeats_the_row() -> None:
    source = "CREATE STREAM s (id INT KEY, xs ARRAY<INT>, ys ARRAY<INT>) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
    text = source + "CREATE STREAM o AS SELECT id, EXPLODE(xs) AS x, EXPLODE(ys) * 10 AS y FROM s;"
    inputs = [("s", 1, {"XS": [1, 2, 3], "YS": [5]}), ("s", 2, {"XS": [], "YS": None})]
    expected = [{"X": 1, "Y": 50}, {"X": 2, "Y": None}, {"X": 3, "Y": None}]
    assert [value for _, value in rows(text, "O", inputs)] == expected


def test_time_position_and_headers_are_columns() -> None:
    source = (
        "CREATE STREAM s (id INT KEY, x INT, trace BYTES HEADER('trace')) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
    )
    text = source + "CREATE STREAM o AS SELECT id, ROWTIME AS t, ROWOFFSET AS at, ROWPARTITION AS p, trace FROM s;"
    [record] = run(text, "O", [("s", 1, {"X": 1}, 99)])
    assert record.value == {"T": 99, "AT": 0, "P": 0, "TRACE": None}


def test_the_timestamp_column_is_the_event_time_and_a_sink_can_have_another() -> None:
    text = (
        "CREATE STREAM s (id INT KEY, at STRING, ms BIGINT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', TIMESTAMP='at',"
        " TIMESTAMP_FORMAT='yyyy-MM-dd'); CREATE STREAM o AS SELECT id, at, ms FROM s;"
        "CREATE STREAM p WITH (TIMESTAMP='ms') AS SELECT id, ms FROM s;"
    )
    inputs = [("s", 1, {"AT": "1970-01-02", "MS": 5}, 0), ("s", 2, {"AT": "never", "MS": 6}, 0)]
    assert [record.timestamp for record in run(text, "O", inputs)] == [86_400_000]
    assert [record.timestamp for record in run(text, "P", inputs)] == [5]


def test_group_by_counts_and_having_filters() -> None:
    text = RIDES + (
        "CREATE TABLE z AS SELECT zone, COUNT(*) AS n, SUM(km) AS km FROM rides GROUP BY zone HAVING COUNT(*) > 1;"
    )
    inputs = [ride(1, "a"), ride(2, "a", 2.5), ride(3, None), ride(4, "b")]
    assert [row for row in rows(text, "Z", inputs) if row[1] is not None] == [("a", {"N": 2, "KM": 3.5})]


def test_a_grouped_table_can_be_read_by_its_name_with_its_columns() -> None:
    app = App("sql")
    app.sql(RIDES + "CREATE TABLE z AS SELECT zone, COUNT(*) AS n FROM rides GROUP BY zone;")
    app.sql("CREATE TABLE y AS SELECT zone, COUNT(*) * 10 AS n FROM rides GROUP BY zone;")
    with TestDriver(app) as driver:
        driver.topic("rides").pipe({"ZONE": "a", "KM": 1.0}, key=1)
        assert (driver.table("Z")["a"], driver.table("Y")["a"]) == ({"N": 1}, {"N": 10})


AGGREGATES: list[tuple[str, Any]] = [
    ("COUNT(km)", 3), ("COUNT_DISTINCT(km)", 2), ("SUM(km)", 7.0), ("AVG(km)", 7 / 3), ("MIN(km)", 1.0),
    ("MAX(km)", 3.0),
    ("COLLECT_LIST(km)", [3.0, None, 1.0, 3.0]), ("COLLECT_SET(km)", [3.0, None, 1.0]), ("TOPK(km, 2)", [3.0, 3.0]),
    ("TOPKDISTINCT(km, 2)", [3.0, 1.0]), ("LATEST_BY_OFFSET(km)", 3.0), ("EARLIEST_BY_OFFSET(km, 2)", [3.0, 1.0]),
    ("LATEST_BY_OFFSET(km, 3, FALSE)", [None, 1.0, 3.0]), ("HISTOGRAM(CAST(km AS STRING))", {"3.0": 2, "1.0": 1}),
    ("VAR_POP(km)", 8 / 9), ("STDDEV_SAMPLE(km) > 1.15", True), ("CORRELATION(km, km)", 1.0), ("ATTR(zone)", "a"),
    ("SUM_LIST(ARRAY[1, 2])", 12), ("MAX(km) - MIN(km)", 2.0),
    ("TOPK(km, id, 1)", [{"sort_col": 3.0, "col0": 1}]),
]  # fmt: skip


@pytest.mark.parametrize(("call", "value"), AGGREGATES, ids=[call for call, _ in AGGREGATES])
def test_aggregates(call: str, value: Any) -> None:
    text = RIDES + f"CREATE TABLE t AS SELECT zone, {call} AS x FROM rides GROUP BY zone;"
    inputs = [ride(1, "a", 3.0), ride(2, "a", None), ride(3, "a", 1.0), ride(4, "a", 3.0)]
    result = rows(text, "T", inputs)[-1][1]["X"]
    assert result == pytest.approx(value) if isinstance(value, float) else result == value


def test_aggregates_of_a_table_take_changed_rows_out_again() -> None:
    text = USERS + "CREATE TABLE c AS SELECT city, COUNT(*) AS n, COLLECT_LIST(name) AS names FROM users GROUP BY city;"
    inputs = [("users", 1, {"NAME": "ann", "CITY": "x"}), ("users", 1, {"NAME": "ann", "CITY": "y"})]
    assert rows(text, "C", inputs) == [
        ("x", {"N": 1, "NAMES": ["ann"]}),
        ("x", {"N": 0, "NAMES": []}),
        ("y", {"N": 1, "NAMES": ["ann"]}),
    ]


def test_windows_and_their_bounds() -> None:
    text = RIDES + (
        "CREATE TABLE w AS SELECT zone, WINDOWSTART AS s, WINDOWEND AS e, COUNT(*) AS n FROM rides "
        "WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY zone;"
    )
    records = run(text, "W", [ride(1, "a", 1.0, 1_000), ride(1, "a", 1.0, 12_000)])
    assert [record.value for record in records] == [{"S": 0, "E": 10_000, "N": 1}, {"S": 10_000, "E": 20_000, "N": 1}]
    assert (records[0].key.key, records[0].key.start) == ("a", 0)


def test_emit_final_emits_a_closed_window_once() -> None:
    text = RIDES + (
        "CREATE TABLE w AS SELECT zone, COUNT(*) AS n FROM rides "
        "WINDOW TUMBLING (SIZE 1 SECOND, RETENTION 1 DAY) GROUP BY zone EMIT FINAL;"
    )
    inputs = [ride(1, "a", 1.0, 0), ride(1, "a", 1.0, 500), ride(1, "b", 1.0, 5_000)]
    assert [record.value for record in run(text, "W", inputs)] == [{"N": 2}]


def test_sessions_are_merged() -> None:
    text = RIDES + "CREATE TABLE w AS SELECT zone, COUNT(*) AS n FROM rides WINDOW SESSION (5 SECONDS) GROUP BY zone;"
    inputs = [ride(1, "a", 1.0, 0), ride(1, "a", 1.0, 3_000)]
    keys = [(record.key.start, record.key.end, record.value) for record in run(text, "W", inputs)]
    assert keys == [(0, 0, {"N": 1}), (0, 0, None), (0, 3_000, {"N": 2})]


def test_a_windowed_topic_is_read_again_with_its_windows() -> None:
    text = RIDES + (
        "CREATE TABLE w AS SELECT zone, COUNT(*) AS n FROM rides WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY zone;"
        "CREATE STREAM back (zone STRING KEY, n BIGINT) WITH (KAFKA_TOPIC='W', VALUE_FORMAT='JSON', "
        "WINDOW_TYPE='TUMBLING', WINDOW_SIZE='10 SECONDS');"
        "CREATE STREAM o AS SELECT zone, n, WINDOWSTART AS s FROM back WHERE WINDOWEND > 10000;"
    )
    records = run(text, "O", [ride(1, "a", 1.0, 1_000), ride(1, "a", 1.0, 12_000)])
    assert [record.value for record in records] == [{"N": 1, "S": 10_000}]


def test_insert_into_writes_to_the_topic_of_a_stream() -> None:
    text = RIDES + (
        "CREATE STREAM o AS SELECT id, zone, km FROM rides WHERE km > 2;"
        "INSERT INTO o SELECT id, 'short' AS zone, km FROM rides WHERE km <= 2;"
    )
    assert rows(text, "O", [ride(1, "a", 3.0), ride(2, "b", 1.0)]) == [
        (1, {"ZONE": "a", "KM": 3.0}),
        (2, {"ZONE": "short", "KM": 1.0}),
    ]


def test_a_row_of_a_table_that_never_passed_a_filter_is_not_deleted() -> None:
    text = USERS + "CREATE TABLE o AS SELECT id, name FROM users WHERE city = 'x';"
    users = [("users", 1, {"NAME": "n", "CITY": city}) for city in ("y", "y", "x", "y", "y")]
    assert rows(text, "O", users) == [(1, {"NAME": "n"}), (1, None)]
