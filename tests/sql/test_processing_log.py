from millstream import App, Config
from millstream.foundation.value_errors import MAX_LOGGED
from millstream.testing import TestDriver

SQL = """
CREATE STREAM orders (id INT KEY, cents STRING, n INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE STREAM single AS SELECT id, CAST(cents AS INT) / n AS each FROM orders WHERE 1 / n < 2;
CREATE TABLE totals AS SELECT n, SUM(CAST(cents AS INT)) AS cents FROM orders GROUP BY n;
"""
LOG = "shop.processing-log"


def test_errors_name_the_query_the_expression_and_the_record() -> None:
    app = App("shop", config=Config(processing_log=True))
    app.sql(SQL)
    with TestDriver(app) as driver:
        driver.topic("orders").pipe({"CENTS": "12", "N": 3}, {"CENTS": "x", "N": 3}, {"CENTS": "5", "N": 0}, key=1)
        log = driver.topic(LOG).read_key_values()
    assert [key for key, _ in log] == ["SINGLE", "TOTALS", "SINGLE"]
    cast, _, division = (value for _, value in log)
    assert cast | {"message": ""} == {
        "query": "SINGLE",
        "step": "ORDERS.source.select",
        "part": "EACH",
        "expression": "(CAST(`CENTS` AS INTEGER) / `N`)",
        "topic": "orders",
        "partition": 0,
        "offset": 1,
        "error": "ValueError",
        "message": "",
    }
    assert (division["part"], division["expression"], division["offset"]) == ("WHERE", "((1 / `N`) < 2)", 2)


def test_the_log_is_bounded_and_says_what_it_omits() -> None:
    app = App("shop", config=Config(processing_log=True))
    app.sql("".join(SQL.splitlines(keepends=True)[:3]))  # a single query, which processes columns
    with TestDriver(app) as driver:
        with driver.holding():  # all of them are one batch
            driver.topic("orders").pipe(*({"CENTS": "x", "N": 3} for _ in range(MAX_LOGGED + 7)), key=1)
        log = driver.topic(LOG).read_values()
        assert [record["offset"] for record in log] == [*range(MAX_LOGGED), -1]
        assert log[-1]["message"] == "7 further errors of this batch are counted in its report only"


def test_without_the_setting_errors_are_only_counted() -> None:
    app = App("shop")
    app.sql(SQL)
    with TestDriver(app) as driver:
        driver.topic("orders").pipe({"CENTS": "x", "N": 3}, key=1)
        assert sum(sum(report.value_errors.values()) for report in driver.reports) == 2
        assert LOG not in driver.broker.topic_names()


def test_a_file_can_ask_for_the_log() -> None:
    app = App("shop")
    app.sql("SET 'ksql.logging.processing.topic.auto.create' = 'true';" + SQL)
    assert app.config.processing_log
