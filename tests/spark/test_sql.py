"""A file of SQL on Spark: workers import the user's functions, and rows have schemas of a registry."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.schemas.registry import Registry
from tests.spark.conftest import Feed, Read

from millstream import App
from millstream.foundation.loading import load_app

pytestmark = pytest.mark.spark

SQL = """
SET 'ksql.schema.registry.url' = '{registry}';
SET 'ksql.logging.processing.topic.auto.create' = 'true';
CREATE FUNCTION shout AS 'tests.spark.sql_functions:shout';
CREATE FUNCTION letters AS 'tests.spark.sql_functions:letters';
CREATE FUNCTION product AS 'tests.spark.sql_functions:Product';

CREATE STREAM words (word STRING, n INT) WITH (KAFKA_TOPIC = 'words', VALUE_FORMAT = 'JSON');
CREATE STREAM loud WITH (VALUE_FORMAT = 'AVRO') AS SELECT SHOUT(word, n) AS text, 10 / n AS tenth FROM words;
CREATE STREAM spelled WITH (VALUE_FORMAT = 'JSON_SR') AS SELECT LETTERS(text) AS letter FROM loud;
CREATE TABLE products WITH (VALUE_FORMAT = 'PROTOBUF') AS SELECT word, PRODUCT(n) AS product FROM words GROUP BY word;
"""


def test_functions_and_registry_formats_work_on_workers(tmp_path: Path, feed: Feed, read: Read) -> None:
    file = tmp_path / "shop.sql"
    with Registry() as registry:
        file.write_text(SQL.format(registry=registry.url))
        app: App = load_app(str(file))
        app.data_dir = tmp_path / "data"
        feed(app, "words", [b'{"WORD": "hi", "N": 2}', b'{"WORD": "hi", "N": 5}', b'{"WORD": "o", "N": 0}'])
        app.run("caught-up")
        relations = app.published_sql.catalog().relations
        rows = {
            name: [relations[name].value_serde.decode(value) for _, value in read(app, name)]
            for name in ("LOUD", "SPELLED", "PRODUCTS")
        }
        assert sorted(row["TEXT"] for row in rows["LOUD"]) == ["HI!!", "HI!!!!!", "O"]
        assert sorted("".join(row["LETTER"] for row in rows["SPELLED"])) == sorted("HI!!HI!!!!!O")
        assert app.tables["PRODUCTS"]["hi"] == {"PRODUCT": 10}
        assert {row["PRODUCT"] for row in rows["PRODUCTS"]} == {10, 0}
        [(query, error)] = read(app, "shop.processing-log")
        assert (query, b"ZeroDivisionError" in error) == ("LOUD", True)
