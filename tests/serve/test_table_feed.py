"""Live tables: one look for all viewers, and every viewer ends with the rows of the table."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from millstream.serve.api.tables import RowView, TablePage
from millstream.serve.table_feed import FeedUpdate, TableFeed, TableFeeds

SEED = 7


@dataclass
class Table:
    rows: dict[str, int] = field(default_factory=dict)
    looks: int = 0
    time: float = 0.0
    has_more: bool = False

    def look(self) -> TablePage:
        self.looks += 1
        rows = [RowView(key=key, value=value, timestamp=0) for key, value in self.rows.items()]
        return TablePage(app="a", table="t", is_windowed=False, has_history=False, rows=rows, has_more=self.has_more)

    def feed(self) -> TableFeed:
        return TableFeed(self.look, lambda: self.time)


class Viewer:
    """A page that applies events, and may lose its connection or be slow."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.id: str | None = None
        self.events: list[str] = []

    def take(self, update: FeedUpdate | None) -> None:
        if update is None:
            return
        self.id = update.id
        self.events.append(update.event)
        if update.event == "state":
            self.rows = {row.key: row.value for row in update.data["rows"]}
        else:
            self.rows.update({row.key: row.value for row in update.data["changed"]})
            for gone in update.data["gone"]:
                self.rows.pop(gone["key"], None)


def test_a_viewer_gets_all_rows_and_then_only_what_changed() -> None:
    table = Table({"a": 1, "b": 2})
    feed, viewer = table.feed(), Viewer()
    viewer.take(feed.update(None))
    table.rows = {"b": 3, "c": 1}
    table.time = 10
    update = feed.update(viewer.id)
    assert update is not None
    assert ([row.key for row in update.data["changed"]], update.data["gone"]) == (
        ["b", "c"],
        [{"key": "a", "start": None}],
    )
    viewer.take(update)
    assert (viewer.rows, viewer.events) == ({"b": 3, "c": 1}, ["state", "rows"])
    table.time = 20
    assert feed.update(viewer.id) is None


def test_many_viewers_need_one_look() -> None:
    table = Table({"a": 1})
    feed = table.feed()
    threads = [threading.Thread(target=feed.update, args=(None,)) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert table.looks == 1
    table.time = 10
    assert [feed.update(None) for _ in range(50)]
    assert table.looks == 2


def test_a_viewer_that_resumes_misses_nothing_however_long_it_was_away() -> None:
    choice = random.Random(SEED)
    table = Table()
    feed, viewers = table.feed(), [Viewer() for _ in range(5)]
    for step in range(3_000):
        table.time += 10
        key = f"k{choice.randrange(20)}"
        if choice.random() < 0.3:
            table.rows.pop(key, None)
        else:
            table.rows[key] = step
        feed.update(None)
        for number, viewer in enumerate(viewers):
            if choice.random() < 0.5 ** (3 * number):  # the last ones look rarely, and are too late for the changes
                viewer.take(feed.update(viewer.id))
                assert viewer.rows == table.rows, f"seed {SEED}, step {step}"
    assert viewers[0].events.count("state") == 1
    assert all(set(viewer.events[1:]) <= {"state", "rows"} for viewer in viewers)


def test_an_id_of_another_server_begins_again_with_all_rows() -> None:
    table = Table({"a": 1})
    first, second = table.feed(), table.feed()
    update = first.update(None)
    assert update is not None
    for last_id in (update.id, "nonsense", "x-1", f"{update.id}99", "-", "\u00b2"):
        other = second.update(last_id)
        assert other is not None
        assert other.event == "state"


def test_feeds_are_shared_and_forgotten() -> None:
    feeds, table = TableFeeds(), Table()
    feed: Any = feeds.feed("a", table.look)
    assert feeds.feed("a", table.look) is feed
    for number in range(300):
        feeds.feed(number, table.look)
    assert len(feeds) == 256
    assert feeds.feed("a", table.look) is not feed


def test_viewers_learn_that_there_are_more_rows() -> None:
    table = Table({"a": 1})
    feed = table.feed()
    first = feed.update(None)
    assert first is not None
    table.time, table.has_more = 10, True
    update = feed.update(first.id)
    assert update is not None
    assert update.data == {"changed": [], "gone": [], "has_more": True}


def test_what_a_feed_keeps_of_rows_that_are_gone_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.serve.table_feed._REMEMBERED", 10)
    table = Table()
    feed, viewers = table.feed(), {}
    for step in range(100):  # each row is there once
        table.time += 10
        table.rows = {f"k{step}": step}
        viewer = viewers[step] = Viewer()
        viewer.take(feed.update(None))
    assert len(feed._gone) == 10
    for step, viewer in viewers.items():
        viewer.take(feed.update(viewer.id))
        assert viewer.rows == {"k99": 99}
        assert viewer.events[1:] == ([] if step == 99 else ["rows"] if step >= 89 else ["state"])


def test_a_table_that_cannot_be_read_is_not_looked_at_by_every_viewer() -> None:
    looks = []

    def fail() -> TablePage:
        looks.append(1)
        raise ValueError("no such table")

    feed = TableFeed(fail, lambda: 0.0)
    for _ in range(3):
        with pytest.raises(ValueError, match="no such table"):
            feed.update(None)
    assert len(looks) == 1
