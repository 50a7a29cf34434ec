import pytest
from tests.sql.running import rows

from millstream import App
from millstream.errors import SqlError

SOURCES = """
CREATE STREAM cars (id INT KEY, name STRING, n INT) WITH (KAFKA_TOPIC='cars', VALUE_FORMAT='JSON');
CREATE STREAM bikes (id INT KEY, label STRING, m BIGINT) WITH (KAFKA_TOPIC='bikes', VALUE_FORMAT='JSON');
CREATE TABLE owners (id INT PRIMARY KEY, owner STRING) WITH (KAFKA_TOPIC='owners', VALUE_FORMAT='JSON');
"""
INPUTS = [("cars", 1, {"NAME": "a", "N": 1}), ("bikes", 2, {"LABEL": "b", "M": 2}), ("cars", 3, {"NAME": "c", "N": 0})]


def test_records_of_all_queries_get_the_columns_of_the_first() -> None:
    text = SOURCES + (
        "CREATE STREAM all_of_them AS SELECT id, label, m FROM bikes "
        "UNION ALL SELECT id, UCASE(name), n FROM cars WHERE n > 0;"
    )
    assert rows(text, "ALL_OF_THEM", INPUTS) == [(1, {"LABEL": "A", "M": 1}), (2, {"LABEL": "b", "M": 2})]


def test_the_same_query_twice_is_two_records() -> None:
    text = SOURCES + "CREATE STREAM twice AS SELECT * FROM cars UNION ALL SELECT * FROM cars;"
    assert len(rows(text, "TWICE", [record for record in INPUTS if record[0] == "cars"])) == 4


def test_a_union_in_from_can_be_grouped() -> None:
    text = SOURCES + (
        "CREATE TABLE counts AS SELECT name, COUNT(*) AS n FROM "
        "(SELECT id, name FROM cars UNION ALL SELECT id, label FROM bikes) both GROUP BY name;"
    )
    assert rows(text, "COUNTS", [*INPUTS, ("bikes", 1, {"LABEL": "a", "M": 0})])[-1] == ("a", {"N": 2})


def test_state_of_the_queries_is_named_by_their_sources() -> None:
    def stores(query: str) -> set[str]:
        app = App("unions")
        app.sql(SOURCES + query)
        return {name for stage in app.plan.stages for name in stage.store_owners}

    cars = "SELECT v.id, name, owner FROM cars v JOIN owners o ON v.id = o.id"
    bikes = "SELECT v.id, label, owner FROM bikes v JOIN owners o ON v.id = o.id"
    assert stores(f"CREATE STREAM v AS {cars} UNION ALL {bikes};") == stores(
        f"CREATE STREAM v AS {bikes} UNION ALL {cars};"
    )


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT id, name FROM cars UNION SELECT id, label FROM bikes", "UNION would remove duplicates"),
        ("SELECT id, name FROM cars UNION ALL SELECT id, m FROM bikes", "column M BIGINT does not match NAME STRING"),
        ("SELECT id, name, n FROM cars UNION ALL SELECT id, label FROM bikes", "has 2 columns beside its key"),
        ("SELECT id, name FROM cars UNION ALL SELECT m, label FROM bikes PARTITION BY m", "have different keys"),
        ("SELECT id, name FROM cars UNION ALL SELECT id, owner FROM owners", "this query results in a TABLE"),
    ],
)
def test_queries_that_do_not_fit_are_refused(query: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        App("unions").sql(f"{SOURCES} CREATE STREAM v AS {query};")
