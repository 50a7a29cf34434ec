"""Which nodes may change a row several times for one record."""

from collections.abc import Callable

import pytest

from millstream import App, Stream, Table
from millstream.plan.foreign_keys import ForeignKeySubscribe


def is_repeating(left: Callable[[App], Table]) -> bool:
    app = App("test")
    table = left(app)
    table.join(app.table("right"), lambda left, right: left, on=str)
    plan = app.plan
    (subscribe,) = (node for node in plan.nodes if isinstance(node, ForeignKeySubscribe))
    return subscribe.source in plan.repeating


def two_ways(stream: Stream) -> Table:
    grouped = stream.group_by_key()
    return grouped.cogroup(lambda k, v, g: v).cogroup(grouped, lambda k, v, g: v).aggregate(lambda: "")


@pytest.mark.parametrize(
    ("left", "repeats"),
    [
        (lambda app: app.table("in"), False),
        (lambda app: app.table("in").filter(bool).map_values(str), False),
        (lambda app: app.stream("in").filter(bool).group_by_key().count(), False),
        (lambda app: app.stream("in").merge(app.stream("other")).to_table(), False),
        (lambda app: app.table("in").join(app.table("other"), max), False),
        (lambda app: app.stream("in").flat_map_values(list).to_table(), True),
        (lambda app: app.stream("in").flat_map_values(list).repartition().to_table(), False),
        (lambda app: two_ways(app.stream("in")), True),
        (lambda app: (table := app.table("in")).join(table.map_values(str), max), True),
        (lambda app: app.stream("in").map_batches(list).to_table(), True),
    ],
)
def test_nodes_that_change_a_row_several_times(left: Callable[[App], Table], repeats: bool) -> None:
    assert is_repeating(left) is repeats
