"""Functions of users: Python functions, generators and classes in SQL."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.task.outcomes import Row, outcome, workspace

from millstream import App
from millstream.errors import DefinitionError, SqlError
from millstream.sql.catalog import Catalog
from millstream.sql.functions.user import declare, parse_declaration
from millstream.sql.translate.statements import Statements
from millstream.testing import TestDriver

SOURCE = "CREATE STREAM s (k INT KEY, word STRING, n INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
TABLE = "CREATE TABLE t (k INT PRIMARY KEY, word STRING, n INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');"


def shout(word: str, times: int = 1) -> str:
    """Used by reference, with the types of its annotations."""
    return word.upper() + "!" * times


def letters(word: str) -> Iterator[str]:
    yield from word


def longest(word: str | None, *others: str | None) -> str | None:
    return max((each for each in (word, *others) if each is not None), key=len, default=None)


class Product:
    """Multiplies numbers; null is left out."""

    def start(self) -> int:
        return 1

    def add(self, state: int, number: int) -> int:
        return state * number

    def merge(self, earlier: int, later: int) -> int:
        return earlier * later

    def finish(self, state: int) -> int:
        return state


class Total(Product):
    """Sums, and can be undone."""

    def start(self) -> int:
        return 0

    def add(self, state: int, number: int) -> int:
        return state + number

    def remove(self, state: int, number: int) -> int:
        return state - number


def run(app: App, out: str, rows: list[Any], topic: str = "s") -> list[Any]:
    with TestDriver(app) as driver:
        for row in rows:
            driver.topic(topic).pipe(None if row is None else {"WORD": row[0], "N": row[1]}, key=1)
        return [value for _, value in driver.topic(out).read_key_values()]


def test_a_function_is_called_with_columns_and_null_stays_null() -> None:
    app = App("udf")
    app.function(shout)
    app.sql(SOURCE + "CREATE STREAM o AS SELECT k, SHOUT(word, n) AS loud FROM s WHERE SHOUT('a', 1) = 'A!';")
    assert run(app, "O", [("hi", 2), (None, 2)]) == [{"LOUD": "HI!!"}, {"LOUD": None}]


def test_a_parameter_that_may_be_null_gets_nulls_and_the_last_one_can_repeat() -> None:
    app = App("udf")
    app.function(name="best")(longest)
    app.sql(SOURCE + "CREATE STREAM o AS SELECT k, BEST(NULL, word, 'xx') AS best FROM s;")
    assert run(app, "O", [("abc", 1), (None, 1)]) == [{"BEST": "abc"}, {"BEST": "xx"}]


def test_an_error_in_a_function_makes_the_value_null() -> None:
    app = App("udf")

    @app.function(takes=["STRING"], returns="DECIMAL(6, 2)")
    def price(text):  # type: ignore[no-untyped-def]
        raise ValueError(text)

    app.sql(SOURCE + "CREATE STREAM o AS SELECT k, PRICE(word) AS price, n FROM s;")
    assert run(app, "O", [("a", 5)]) == [{"PRICE": None, "N": 5}]


def test_a_generator_makes_a_row_for_each_value() -> None:
    app = App("udtf")
    app.function(letters)
    app.sql(SOURCE + "CREATE STREAM o AS SELECT k, LETTERS(word) AS letter, n FROM s;")
    assert run(app, "O", [("ab", 3), (None, 4)]) == [{"LETTER": "a", "N": 3}, {"LETTER": "b", "N": 3}]


def test_a_class_aggregates_streams_in_windows_too() -> None:
    app = App("udaf")
    app.function(Product)
    app.sql(SOURCE + "CREATE TABLE o AS SELECT k, PRODUCT(n) + 0 AS p FROM s WINDOW SESSION (1 DAY) GROUP BY k;")
    assert run(app, "O", [("", 3), ("", None), ("", 5)])[-1] == {"P": 15}


class Sentence:
    """Changes its state in place."""

    def start(self) -> list[str]:
        return []

    def add(self, state: list[str], word: str) -> list[str]:
        state.append(word)
        return state

    def merge(self, earlier: list[str], later: list[str]) -> list[str]:
        return earlier + later

    def finish(self, state: list[str]) -> str:
        return " ".join(state)


@pytest.mark.parametrize("window", ["", "WINDOW TUMBLING (SIZE 1 DAY)"])
def test_each_record_of_a_batch_gets_its_result_though_the_state_is_changed_in_place(window: str) -> None:
    app = App("udaf")
    app.function(Sentence)
    program = f"CREATE TABLE o WITH (KAFKA_TOPIC='udaf-o') AS SELECT k, SENTENCE(word) AS t FROM s {window} GROUP BY k;"
    app.sql(SOURCE + program)
    records: list[Row] = [(b"\0\0\0\1", b'{"WORD":"w%d"}' % number, number) for number in range(40)]
    with workspace({"s": records}) as space:
        results = outcome(app, space, [{"s": (0, 40)}], caching=False).outputs["o"]
    assert [value.count(b"w") for _, value, _, _ in results] == list(range(1, 41))


def test_a_class_that_can_remove_aggregates_tables() -> None:
    app = App("udaf")
    app.function(Total)
    app.sql(TABLE + "CREATE TABLE o AS SELECT word, TOTAL(n) AS total FROM t GROUP BY word;")
    assert run(app, "O", [("a", 3), ("a", 10), ("b", 1)], "t") == [
        {"TOTAL": 3}, {"TOTAL": 10}, {"TOTAL": 0}, {"TOTAL": 1},
    ]  # fmt: skip
    app = App("udaf2")
    app.function(Product)
    with pytest.raises(SqlError, match="PRODUCT cannot be applied to a table: its class has no method remove"):
        app.sql(TABLE + "CREATE TABLE o AS SELECT word, PRODUCT(n) AS p FROM t GROUP BY word;")


def test_files_name_code_by_import() -> None:
    app = App("files")
    app.sql(
        SOURCE
        + f"CREATE FUNCTION loud(word STRING, times INT) RETURNS STRING AS '{__name__}:shout';"
        + f"CREATE FUNCTION product AS '{__name__}:Product';"
        + "CREATE TABLE o AS SELECT LOUD(word, 1) AS w, PRODUCT(n) AS p FROM s GROUP BY LOUD(word, 1);"
    )
    assert run(app, "O", [("a", 2), ("a", 3)]) == [{"P": 2}, {"P": 6}]
    assert "LOUD(STRING, INTEGER) RETURNS STRING AS" in app.describe("json")


def test_nothing_that_a_network_sends_can_name_code() -> None:
    statements = Statements(Catalog(), lambda: pytest.fail("no query is translated"))
    with pytest.raises(SqlError, match="CREATE FUNCTION names Python code"):
        list(statements.execute("CREATE FUNCTION f(a STRING) RETURNS INT AS 'os:system';"))
    quoted = "`FUNCTION F(STRING) RETURNS INTEGER AS 'os:system'`('true')"
    with pytest.raises(SqlError, match="is unknown"):
        App("net").sql(SOURCE + f"CREATE STREAM o AS SELECT k, {quoted} AS x FROM s;")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE FUNCTION f AS 'no_such_module:f';", "cannot be imported"),
        ("CREATE FUNCTION f AS 'nothing';", "does not name Python code"),
        ("CREATE FUNCTION ucase AS 'math:sin';", "UCASE is a function of SQL already"),
        (f"CREATE FUNCTION f AS '{__name__}:shout'; CREATE FUNCTION f AS '{__name__}:shout';", "exists already"),
        ("DROP FUNCTION f;", "function F is unknown"),
    ],
)
def test_wrong_definitions_are_refused(text: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        App("bad").sql(text)


def test_functions_without_types_are_refused() -> None:
    app = App("bad")
    with pytest.raises(DefinitionError, match="the parameter value of the function BARE has no type"):

        @app.function
        def bare(value):  # type: ignore[no-untyped-def]
            return value

    with pytest.raises(DefinitionError, match="has no method merge"):
        app.function(type("Half", (), {"start": shout, "add": shout}))


def test_functions_can_be_dropped_and_replaced() -> None:
    app = App("drop")
    app.sql(f"CREATE FUNCTION f AS '{__name__}:shout'; DROP FUNCTION f; DROP FUNCTION IF EXISTS f;")
    app.sql(f"CREATE FUNCTION f AS '{__name__}:shout'; CREATE OR REPLACE FUNCTION f AS '{__name__}:letters';")
    with pytest.raises(SqlError, match="function G is unknown"):
        app.sql(SOURCE + "CREATE STREAM o AS SELECT k, g(word) AS x FROM s;")


@pytest.mark.parametrize("code", [shout, letters, longest, Product, Total])
def test_a_declaration_is_read_as_it_was_written(code: Any) -> None:
    declaration = declare(code, "NAME")
    assert parse_declaration(str(declaration)) == declaration
