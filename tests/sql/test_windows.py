"""Windows of SQL: final results, and joins of windowed sources."""

from typing import Any

import pytest
from tests.sql.running import run

from millstream import App
from millstream.testing import TestDriver

S = "CREATE STREAM s (id INT KEY, a STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
HOUR = 3_600_000


def counted(window: str) -> str:
    """Return the SQL of final counts."""
    return S + f"CREATE TABLE o AS SELECT a, COUNT(*) AS n FROM s WINDOW {window} GROUP BY a EMIT FINAL;"


@pytest.mark.parametrize(
    ("window", "starts"),
    [
        ("TUMBLING (SIZE 10 SECONDS, RETENTION 1 MINUTE)", [0]),
        ("HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS, RETENTION 1 HOUR, GRACE PERIOD 1 SECOND)", [0, 5_000]),
        ("SESSION (10 SECONDS, RETENTION 1 MINUTE, GRACE PERIOD 5 SECONDS)", [7_000]),
        ("TUMBLING (SIZE 10 SECONDS)", []),  # as in ksqlDB: the window closes after its retention
    ],
)
def test_with_retention_emit_final_loses_no_window_however_long_the_stream_pauses(
    window: str, starts: list[int]
) -> None:
    # x x                                                               y         (a day later)
    inputs = [("s", 1, {"A": "x"}, 7_000), ("s", 1, {"A": "x"}, 8_000), ("s", 1, {"A": "y"}, 24 * HOUR)]
    records = run(counted(window), "O", inputs)
    assert [(record.key.key, record.key.start, record.value) for record in records] == [
        ("x", start, {"N": 2}) for start in starts
    ]


def test_emit_final_loses_no_window_that_was_stored_before_the_pause() -> None:
    app = App("final")
    app.sql(counted("TUMBLING (SIZE 10 SECONDS, RETENTION 1 MINUTE)"))
    with TestDriver(app) as driver:
        topic = driver.topic("s")
        topic.pipe({"A": "x"}, key=1, timestamp=7_000)
        topic.pipe({"A": "y"}, key=1, timestamp=24 * HOUR)
        topic.pipe({"A": "x"}, key=1, timestamp=8_000)  # too late, and not emitted again
        topic.pipe({"A": "z"}, key=1, timestamp=48 * HOUR)
        keys: list[Any] = [key.key for key, _ in driver.topic("O").read_key_values()]
    assert keys == ["x", "y"]


def test_a_join_of_windowed_sources_keeps_both_bounds_as_columns() -> None:
    windowed = "WITH (KAFKA_TOPIC='{}', VALUE_FORMAT='JSON', WINDOW_TYPE='TUMBLING', WINDOW_SIZE='2 SECONDS');"
    app = App("bounds")
    app.sql(f"""CREATE STREAM l (k INT KEY, a INT) {windowed.format("l")}
        CREATE STREAM r (k INT KEY, b INT) {windowed.format("r")}
        CREATE STREAM o AS SELECT * FROM l JOIN r WITHIN 1 MINUTE ON l.k = r.k;""")
    relation = next(each.relation for each in app.published_sql.relations if each.relation.name == "O")
    bounds = ("WINDOWSTART", "WINDOWEND")
    expected = [*(f"L_{name}" for name in (*bounds, "A")), *(f"R_{name}" for name in ("K", *bounds, "B"))]
    assert list(relation.values) == expected
