"""SQL inside an app: handles in, handles out, and files."""

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from millstream import App
from millstream.errors import DefinitionError, SqlError
from millstream.foundation.loading import import_app, load_app, reference_to
from millstream.testing import TestDriver


class Click(msgspec.Struct):
    user: str
    price: float | None = None
    tags: list[str] = []


@dataclass
class User:
    name: str
    visits: int


def test_handles_of_python_are_sources_and_results_are_handles() -> None:
    app = App("sql")
    clicks, users = app.stream("clicks", key=str, value=Click), app.table("users", key=str, value=User)
    joined = app.sql(
        "SELECT c.key, name, price * 2 AS twice, tags[1] AS tag FROM clicks c JOIN users u ON c.key = u.key;",
        clicks=clicks,
        users=users,
    )
    joined.map_values(lambda row: [row["NAME"], row["TWICE"], row["TAG"]]).to("out")
    with TestDriver(app) as driver:
        driver.topic("users").pipe(User("Ann", 3), key="u1")
        driver.topic("clicks").pipe(Click("u1", 1.5, ["x"]), key="u1")
        assert driver.topic("out").read_values() == [["Ann", 3.0, "x"]]


def test_a_handle_without_declared_fields_is_refused() -> None:
    app = App("sql")
    with pytest.raises(DefinitionError, match="columns of raw are unknown"):
        app.sql("SELECT * FROM raw;", raw=app.stream("raw"))


def test_queries_with_state_have_names() -> None:
    app = App("sql")
    app.sql("CREATE STREAM s (id INT KEY, x INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');")
    for name, column in (("by_x", "x"), ("by_id", "id")):
        app.sql(f"SELECT {column}, COUNT(*) AS n FROM s GROUP BY {column};", name=name)
    with TestDriver(app) as driver:
        driver.topic("s").pipe({"X": 3}, {"X": 4}, key=1)
        assert (driver.table("by_x")[3], driver.table("by_id")[1]) == ({"N": 1}, {"N": 2})


def test_later_calls_see_what_earlier_ones_have_defined() -> None:
    app = App("sql")
    app.sql("CREATE STREAM s (id INT KEY, x INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');")
    app.sql("DEFINE least = '5'; CREATE STREAM o AS SELECT * FROM s WHERE x > ${least};")
    with TestDriver(app) as driver:
        driver.topic("s").pipe({"X": 3}, {"X": 7}, key=1)
        assert driver.topic("O").read_values() == [{"X": 7}]


def test_expressions_are_part_of_the_plan_and_its_fingerprint() -> None:
    def description(condition: str) -> str:
        app = App("sql")
        app.sql("CREATE STREAM s (id INT KEY, x INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');")
        app.sql(f"CREATE STREAM o AS SELECT id, x + 1 AS y FROM s WHERE {condition};")
        return app.describe("json")

    assert '"(`X` > 5)"' in description("x > 5")
    assert description("x > 5") == description("X  >  5")
    assert description("x > 5") != description("x > 6")


FILE = """
CREATE STREAM words (word STRING) WITH (KAFKA_TOPIC='words', VALUE_FORMAT='JSON');
CREATE TABLE counts AS SELECT word, COUNT(*) AS n FROM words GROUP BY word;
"""


def test_a_file_is_an_app_that_any_process_can_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "word_count.sql"
    path.write_text(FILE)
    app = load_app(str(path))
    reference = reference_to(app)
    assert app.id == "word_count"
    assert reference is not None
    monkeypatch.delitem(__import__("sys").modules, "word_count_sql")
    assert import_app(reference).describe() == app.describe()


def test_an_error_in_a_file_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.sql"
    path.write_text(FILE.replace("COUNT(*)", "COUNTT(*)"))
    with pytest.raises(SqlError, match="line 3, column 37: function COUNTT is unknown; did you mean COUNT"):
        load_app(str(path))
