"""Hopping windows of 10 ms every 5 ms.

time      0    5    10   15   20
windows   [---------)
               [---------)
                    [---------)
record           a@7
"""

import pytest

from millstream import App, hopping
from millstream.errors import DefinitionError
from millstream.testing import TestDriver


def test_a_record_belongs_to_all_windows_that_contain_it_in_order_of_their_start() -> None:
    app = App("test")
    windows = hopping("10 ms", every="5 ms")
    totals = app.stream("in", value=int).group_by_key().windowed_by(windows).reduce(lambda a, b: a + b)
    totals.to_stream(lambda window, _: f"{window.start}-{window.end}").to("out")
    with TestDriver(app) as driver:
        driver.topic("in").pipe(3, key="a", timestamp=7)
        driver.topic("in").pipe(4, key="a", timestamp=3)
        assert driver.topic("out").read_key_values() == [("0-10", 3), ("5-15", 3), ("0-10", 7)]


def test_late_is_decided_for_each_window() -> None:
    app = App("test")
    app.stream("in", value=int).group_by_key().windowed_by(hopping("10 ms", every="5 ms")).count(name="n").to_stream(
        lambda window, _: window.start
    ).to("out")
    with TestDriver(app) as driver:
        driver.topic("in").pipe(0, key="a", timestamp=12)
        driver.topic("out").read()
        driver.topic("in").pipe(0, key="a", timestamp=6)
        assert driver.topic("out").read_key_values() == [("5", 2)]
        assert driver.dropped == {"n: late": 1}


def test_windows_with_gaps_are_rejected() -> None:
    with pytest.raises(DefinitionError, match="have gaps"):
        hopping("5 ms", every="10 ms")
