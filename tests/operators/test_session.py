"""Sessions with a gap of 5 ms.

time      0    5    10   15   20
records   a@0  a@5      a@12
sessions  [----]        []           a@8 then joins all of them
"""

import pytest

from millstream import App, session
from millstream.errors import DefinitionError
from millstream.testing import TestDriver


def sessions() -> App:
    app = App("test")
    counts = app.stream("in", value=str).group_by_key().windowed_by(session(gap="5 ms", grace="20 ms")).count(name="n")
    counts.to_stream(lambda window, _: f"{window.start}-{window.end}").to("out")
    return app


def test_a_record_within_the_gap_extends_the_session_and_deletes_the_old_one() -> None:
    with TestDriver(sessions()) as driver:
        driver.topic("in").pipe("x", key="a", timestamp=0)
        driver.topic("in").pipe("x", key="a", timestamp=5)
        assert driver.topic("out").read_key_values() == [("0-0", 1), ("0-0", None), ("0-5", 2)]


def test_a_record_between_two_sessions_merges_them() -> None:
    with TestDriver(sessions()) as driver:
        for timestamp in (0, 5, 12):
            driver.topic("in").pipe("x", key="a", timestamp=timestamp)
        driver.topic("out").read()
        driver.topic("in").pipe("x", key="a", timestamp=8)
        assert driver.topic("out").read_key_values() == [("0-5", None), ("12-12", None), ("0-12", 4)]
        assert [(row.key.start, row.key.end, row.value) for row in driver.table("n").scan()] == [(0, 12, 4)]


def test_aggregate_over_sessions_requires_a_merger() -> None:
    grouped = App("test").stream("in").group_by_key().windowed_by(session(gap="5 ms"))
    with pytest.raises(DefinitionError, match="pass merge="):
        grouped.aggregate(list, lambda seen, value: [*seen, value])
