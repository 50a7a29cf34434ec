"""Built-in aggregations of grouped tables: rows are added and removed."""

from __future__ import annotations

from typing import Any

import pytest

from millstream import App, Windowed, collect_of, count_of, hopping, max_of, mean_of, session, sliding, sum_of
from millstream.errors import DefinitionError
from millstream.testing import TestDriver


def test_a_changed_row_leaves_its_old_group() -> None:
    app = App("test")
    people = app.table("people")  # {"city": …, "age": …}
    by_city = people.group_by(lambda person: person["city"])
    by_city.agg(n=count_of(), ages=collect_of("age"), mean=mean_of("age"), name="cities").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("people").pipe_pairs(
            [
                ("ann", {"city": "Rome", "age": 30}),
                ("bob", {"city": "Rome", "age": 40}),
                ("ann", {"city": "Oslo", "age": 31}),
                ("bob", {"city": "Rome", "age": None}),
                ("bob", None),
            ]
        )
        assert driver.topic("out").read_key_values() == [
            ("Rome", {"n": 1, "ages": [30], "mean": 30.0}),
            ("Rome", {"n": 2, "ages": [30, 40], "mean": 35.0}),
            ("Rome", {"n": 1, "ages": [40], "mean": 40.0}),
            ("Oslo", {"n": 1, "ages": [31], "mean": 31.0}),
            ("Rome", {"n": 1, "ages": [], "mean": None}),
            ("Rome", None),
        ]
        assert dict(driver.table("cities").items()) == {"Oslo": {"n": 1, "ages": [31], "mean": 31.0}}


def test_a_row_without_a_value_is_in_no_group() -> None:
    app = App("test")
    people = app.table("people", value=dict[str, Any])
    people.group_by(lambda _: "all").sum("age", name="ages").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("people").pipe_pairs([("ann", {"age": None}), ("ann", {"age": 3}), ("ann", {"age": None})])
        assert driver.topic("out").read_values() == [3, None]


@pytest.mark.parametrize("caching", [False, True])
def test_a_table_of_counts_adds_up(caching: bool) -> None:
    app = App("test")
    words = app.stream("words", value=str).group_by(lambda word: word).count(name="word_counts")
    by_letter = words.group_by(lambda word, _: word[0])
    by_letter.agg(words=count_of(), all=sum_of(), mean=mean_of(), name="letters")
    with TestDriver(app, caching=caching) as driver:
        driver.topic("words").pipe("ax", "ay", "ax", "b")
        assert dict(driver.table("letters").items()) == {
            "a": {"words": 2, "all": 3, "mean": 1.5},
            "b": {"words": 1, "all": 1, "mean": 1.0},
        }


@pytest.mark.parametrize("windows", [hopping("10 ms", every="5 ms"), sliding("10 ms"), session(gap="5 ms")], ids=str)
def test_a_table_of_windows_adds_up(windows: Any) -> None:
    app = App("test")
    counts = app.stream("n", value=int).group_by_key().windowed_by(windows).count(name="counts")
    counts.to_stream().to("out", key=Windowed)
    counts.group_by(lambda window, _: window.key).sum(name="sums")
    with TestDriver(app) as driver:
        for time in (12, 14, 21, 13, 18, 40):
            driver.topic("n").pipe(1, key="a", timestamp=time)
        last = dict(driver.topic("out").read_key_values())
        assert driver.table("sums")["a"] == sum(count for count in last.values() if count is not None)


@pytest.mark.parametrize("verb", ["min", "max", "first", "last", "collect_set", "count_distinct"])
def test_aggregations_that_cannot_subtract_are_rejected_with_a_reason(verb: str) -> None:
    grouped = App("test").table("t").group_by(lambda value: value)
    with pytest.raises(DefinitionError, match=rf"{verb}\(\) of a grouped table .*: (only|each)"):
        getattr(grouped, verb)()
    with pytest.raises(DefinitionError, match=r"agg\(high=…\) of a grouped table"):
        grouped.agg(n=count_of(), high=max_of())
    with pytest.raises(DefinitionError, match="for windows only"):
        grouped.sum(retention="1 h")
