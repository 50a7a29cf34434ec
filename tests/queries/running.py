"""A SQL app in the test driver, and a session that is bound to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from millstream import App
from millstream.broker import TopicConfig
from millstream.queries.answers import Changes, Message, Result, rows_of
from millstream.queries.limits import Limits
from millstream.queries.session import Session
from millstream.testing import TestDriver

RIDES = """
    CREATE STREAM rides (id INT KEY, zone STRING, km DOUBLE) WITH (KAFKA_TOPIC = 'rides', VALUE_FORMAT = 'JSON');
    CREATE TABLE zones AS SELECT zone, COUNT(*) AS n, SUM(km) * 1000 AS meters FROM rides GROUP BY zone;
    CREATE TABLE seconds AS SELECT zone, COUNT(*) * 10 AS tens FROM rides WINDOW TUMBLING (SIZE 1 SECOND)
        GROUP BY zone HAVING COUNT(*) < 3;
    CREATE TABLE drivers (name STRING PRIMARY KEY, zone STRING) WITH (KAFKA_TOPIC = 'drivers', VALUE_FORMAT = 'JSON');
    CREATE TABLE by_both WITH (KEY_FORMAT = 'JSON') AS SELECT zone, id, COUNT(*) AS n FROM rides GROUP BY zone, id;
"""


class Bound(NamedTuple):
    """A running app and its session."""

    driver: TestDriver
    session: Session

    def ride(self, zone: str | None, km: float = 1.0, *, key: int = 1, timestamp: int = 0) -> None:
        self.driver.topic("rides").pipe({"ZONE": zone, "KM": km}, key=key, timestamp=timestamp)

    def result(self, text: str) -> Result:
        """Return the result of the last statement."""
        *_, last = self.session.execute(text)
        assert isinstance(last.answer, Result), last
        return last.answer

    def rows(self, text: str) -> list[list[Any]]:
        return self.result(text).rows

    def message(self, text: str) -> str:
        *_, last = self.session.execute(text)
        assert isinstance(last.answer, Message), last
        return last.answer.text

    def changes(self, text: str) -> Changes:
        *_, last = self.session.execute(text)
        assert not isinstance(last.answer, Message | Result), last
        return last.answer

    def changed(self, text: str) -> list[list[Any]]:
        """Return the rows of a push query from the beginning, which needs a LIMIT."""
        changes = self.changes(f"SET 'auto.offset.reset' = 'earliest'; {text}")
        return [change.values for change in rows_of(changes, 0.01)]


@contextmanager
def bound(sql: str = RIDES, *, partitions: int = 3, limits: Limits | None = None) -> Iterator[Bound]:
    """Run an app of SQL statements in the driver, with a session that is bound to it."""
    app = App("taxi")
    app.sql(sql)
    with TestDriver(app, partitions=partitions) as driver:
        if "drivers" not in driver.topics:
            driver.broker.create_topic("drivers", TopicConfig(partitions=partitions))
        session = Session(
            lambda: driver.broker,
            published=app.published_sql,
            tables=lambda: driver.tables,
            limits=limits,
        )
        yield Bound(driver, session)
