import pytest
from tests.sql.running import rows

from millstream import App
from millstream.errors import SqlError

ORDERS = "CREATE STREAM orders (item STRING KEY, n INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');"
PRICES = """CREATE TABLE prices (item STRING PRIMARY KEY, price INT)
    WITH (KAFKA_TOPIC='prices', VALUE_FORMAT='JSON', HISTORY='1 HOUR');"""
JOIN = """CREATE STREAM sold AS
    SELECT o.item, n * price AS total FROM orders o {kind}JOIN prices p {clause} ON o.item = p.item;"""
INPUTS = [
    ("prices", "tea", {"PRICE": 2}, 0),
    ("prices", "tea", {"PRICE": 5}, 10_000),
    ("orders", "tea", {"N": 1}, 5_000),
    ("orders", "tea", {"N": 1}, 15_000),
]


def test_a_record_meets_the_row_that_was_valid_at_its_time() -> None:
    text = ORDERS + PRICES + JOIN.format(kind="", clause="AS OF o.ROWTIME")
    assert rows(text, "SOLD", INPUTS) == [("tea", {"TOTAL": 2}), ("tea", {"TOTAL": 5})]


def test_a_grace_period_waits_for_late_rows() -> None:
    text = ORDERS + PRICES + JOIN.format(kind="LEFT ", clause="AS OF ROWTIME GRACE PERIOD 10 SECONDS")
    late = [
        ("orders", "tea", {"N": 3}, 5_000),
        ("prices", "tea", {"PRICE": 4}, 1_000),
        ("orders", "tea", {"N": 1}, 60_000),
    ]
    assert rows(text, "SOLD", late)[0] == ("tea", {"TOTAL": 12})


def test_the_history_of_a_result_is_kept_where_it_is_read() -> None:
    changes = "CREATE STREAM changes (item STRING KEY, price INT) WITH (KAFKA_TOPIC='changes', VALUE_FORMAT='JSON');"
    table = """CREATE TABLE prices WITH (HISTORY='1 HOUR') AS
        SELECT item, LATEST_BY_OFFSET(price) AS price FROM changes GROUP BY item;"""
    inputs = [("changes" if topic == "prices" else topic, *record) for topic, *record in INPUTS]
    text = ORDERS + changes + table + JOIN.format(kind="", clause="AS OF o.ROWTIME")
    assert rows(text, "SOLD", inputs) == [("tea", {"TOTAL": 2}), ("tea", {"TOTAL": 5})]


@pytest.mark.parametrize(
    ("prices", "clause", "message"),
    [
        (PRICES.replace(", HISTORY='1 HOUR'", ""), "AS OF o.ROWTIME", "PRICES keeps no history"),
        (PRICES, "AS OF n", "AS OF needs the time of the stream"),
        (PRICES, "AS OF p.ROWTIME", "AS OF needs the time of the stream"),
        (PRICES, "GRACE PERIOD 1 SECOND", "GRACE PERIOD needs a join of streams, or AS OF"),
        (PRICES, "AS OF o.ROWTIME GRACE PERIOD 2 HOURS", "cannot wait 7200000 ms"),
    ],
)
def test_what_has_no_meaning_is_refused(prices: str, clause: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        App("sql").sql(ORDERS + prices + JOIN.format(kind="", clause=clause))
