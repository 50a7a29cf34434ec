"""Sliding windows: one for each set of records that are at most 10 ms apart.

time      0    5    10   15   20   25   30
records             a@10      b@18
windows   [---------]                        a
                  [---------]                a, b (ends at 18)
                     [---------]             b (begins right after a)
"""

from millstream import App, sliding
from millstream.testing import TestDriver


def test_windows_exist_where_the_content_changes() -> None:
    app = App("test")
    joined = (
        app.stream("in", value=str)
        .group_by_key()
        .windowed_by(sliding("10 ms", grace="50 ms"))
        .aggregate(str, lambda text, value: text + value)
    )
    joined.to_stream(lambda window, _: f"{window.start}-{window.end}").to("out")
    with TestDriver(app) as driver:
        driver.topic("in").pipe("a", key="k", timestamp=10)
        driver.topic("in").pipe("b", key="k", timestamp=18)
        assert driver.topic("out").read_key_values() == [("0-10", "a"), ("11-21", "b"), ("8-18", "ab")]


def test_null_values_are_dropped() -> None:
    app = App("test")
    app.stream("in", value=str).group_by_key().windowed_by(sliding("10 ms")).count(name="n")
    with TestDriver(app) as driver:
        driver.topic("in").pipe(None, key="k", timestamp=10)
        assert driver.dropped == {"n: null_value": 1}
