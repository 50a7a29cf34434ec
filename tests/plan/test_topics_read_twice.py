"""One topic as a stream and as a table, or with other columns, in one app."""

from typing import Any

import pytest

from millstream import App
from millstream.dsl.stream import Stream
from millstream.dsl.table import Table
from millstream.errors import DefinitionError
from millstream.plan.sources import StreamSource, TableSource
from millstream.serdes import JSON, READABLE
from millstream.testing import TestDriver


def read(app: App, *, shared: bool | None) -> tuple[Stream[Any, Any], Table[Any, Any]]:
    settings: dict[str, Any] = {"topics": ("prices",), "key": READABLE, "value": JSON, "shared": shared}
    stream = Stream(app._draft, StreamSource(name="as-stream", **settings))
    return stream, Table(app._draft, TableSource(name="as-table", **settings))


@pytest.mark.parametrize("partitions", [1, 2])
def test_sources_that_share_a_topic_both_get_all_its_records(partitions: int) -> None:
    app = App("twice")
    stream, table = read(app, shared=True)
    stream.map_values(lambda price: price * 2).to("doubled")
    app.stream("sales", value=str).join(table, lambda sale, price: f"{sale}:{price}").to("out")
    with TestDriver(app, partitions=partitions) as driver:
        driver.topic("prices").pipe(3, key="pen")
        driver.topic("sales").pipe("ann", key="pen")
        assert driver.topic("doubled").read_values() == [6]
        assert driver.topic("out").read_values() == ["ann:3"]


def test_other_sources_have_their_topic_for_themselves() -> None:
    app = App("twice")
    read(app, shared=None)
    with pytest.raises(DefinitionError, match="is read by"):
        _ = app.plan
