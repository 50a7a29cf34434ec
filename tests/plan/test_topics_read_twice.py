"""One topic as a stream and as a table, in one app."""

import pytest

from millstream import App
from millstream.errors import DefinitionError
from millstream.testing import TestDriver


def test_a_topic_is_read_as_a_stream_and_as_a_table() -> None:
    app = App("twice")
    app.stream("prices", value=int).map_values(lambda price: price * 2).to("doubled")
    table = app.table("prices", value=int)
    app.stream("sales", value=str).join(table, lambda sale, price: f"{sale}:{price}").to("out")
    with TestDriver(app, partitions=2) as driver:
        driver.topic("prices").pipe(3, key="pen")
        driver.topic("sales").pipe("ann", key="pen")
        assert driver.topic("doubled").read_values() == [6]
        assert driver.topic("out").read_values() == ["ann:3"]


def test_a_global_table_has_its_topic_for_itself() -> None:
    app = App("twice")
    app.stream("prices", value=int).to("out")
    app.global_table("prices", value=int)
    with pytest.raises(DefinitionError, match="is read by"):
        _ = app.plan
