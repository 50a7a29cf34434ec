"""A fill is refused with the reason where the past cannot be computed exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import run_to_end

from millstream import App, Config, Processor
from millstream.admin.filling import expired, requested_fill
from millstream.batch.fill import Fill
from millstream.batch.journal import Journal
from millstream.broker import Output, TopicConfig
from millstream.errors import DefinitionError, StateError
from millstream.foundation.blocks import block_of
from millstream.foundation.paths import journal_dir
from millstream.log import EmbeddedLog
from millstream.plan.node import Node

Define = Callable[[App], Any]


def count_words(app: App) -> None:
    app.stream("words", value=str).group_by(lambda word: word).count(name="seen").to_stream().to("out")


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., Fill | None]:
    """Run a count, then ask for the fill of a table of a changed topology."""
    with EmbeddedLog(tmp_path) as log:
        for topic in ("words", "more", "out"):
            log.create_topic(topic, TopicConfig(partitions=2))
        log.append([Output("words", 0, block_of([b"a"], [b"a"], [1]))])

    def ask(define: Define, *tables: str, has_run: bool = True, **config: Any) -> Fill | None:
        if has_run:
            old = App("test", data_dir=tmp_path)
            count_words(old)
            run_to_end(old)
        app = App("test", data_dir=tmp_path, config=Config(**config))
        define(app)
        journal = Journal(journal_dir(tmp_path, "test"))
        return requested_fill(app.plan, app.config, tmp_path, "test", journal, tables)

    return ask


class Last(Processor):
    def process(self, record: Any) -> None:
        self.context.forward(record)


def lengths(app: App) -> None:
    count_words(app)
    app.stream("words", value=str).group_by(len).count(name="lengths")


def reads_processor(app: App) -> None:
    count_words(app)
    app.stream("words", value=str).process(Last, name="last").group_by(len).count(name="lengths")


def reads_global_table(app: App) -> None:
    count_words(app)
    joined = app.stream("words", value=str).join(
        app.global_table("more", value=str), lambda word, other: word + other, key=lambda word: word
    )
    joined.group_by(len).count(name="lengths")


def reads_idle_source(app: App) -> None:
    count_words(app)
    app.stream("words", value=str).merge(app.stream("more", value=str, idle_after="1 s")).group_by(len).count(
        name="lengths"
    )


def reads_updates(app: App) -> None:
    words = app.stream("words", value=str)
    seen = words.group_by(lambda word: word).count(name="seen")
    seen.to_stream().group_by(lambda word, n: n).count(name="lengths")


def in_front_of_existing(app: App) -> None:
    words = app.stream("words", value=str)
    lengths = words.group_by(lambda word: word).reduce(max, name="lengths")
    lengths.to_stream().group_by_key().count(name="seen")


@pytest.mark.parametrize(
    ("define", "reason"),
    [
        (reads_processor, "the processor of 'last' may use the time of the clock"),
        (reads_global_table, "joined past records with the global table as it was then"),
        (reads_idle_source, "the time of 'more' advanced by the clock while it was idle"),
        (reads_updates, "with caching, the number of updates of 'seen' depends on its batches"),
        (in_front_of_existing, "'seen' is part of the app and reads from lengths, so it could not go on meanwhile"),
    ],
)
def test_a_fill_that_cannot_be_exact_is_refused_with_the_reason(
    ask: Callable[..., Fill | None], define: Define, reason: str
) -> None:
    with pytest.raises(StateError) as caught:
        ask(define, "lengths")
    assert reason in str(caught.value)
    assert "millstream replay" in str(caught.value)


def test_every_update_is_exact_without_caching(ask: Callable[..., Fill | None]) -> None:
    fill = ask(reads_updates, "lengths", caching=False)
    assert fill is not None
    assert fill.filled == ("lengths",)


def test_only_new_tables_can_be_filled(ask: Callable[..., Fill | None]) -> None:
    with pytest.raises(StateError, match="table 'seen' is part of app 'test' since an earlier start"):
        ask(lengths, "seen")
    with pytest.raises(DefinitionError, match="there is no table 'sene' to fill; tables: lengths, seen"):
        ask(lengths, "sene")
    with pytest.raises(StateError, match="tables are filled on one host only"):
        ask(lengths, "lengths", checkpoint="somewhere")


def test_an_app_that_has_not_run_has_nothing_to_fill(ask: Callable[..., Fill | None]) -> None:
    assert ask(lengths, "lengths", has_run=False) is None


def names(nodes: tuple[Node, ...]) -> list[str | None]:
    return [node.name for node in nodes]


def test_a_fill_and_the_rest_of_the_app_are_parts_of_the_plan(ask: Callable[..., Fill | None]) -> None:
    def define(app: App) -> None:
        count_words(app)
        words = app.stream("words", value=str).peek(repr, name="shown")
        longest = words.group_by(len).reduce(max, name="longest")
        longest.group_by(lambda n, word: (word, n)).count(name="both").to_stream().to("out")

    app = App("plan")
    define(app)
    fill = ask(define, "both")
    assert fill is not None
    assert fill.filled == ("longest", "both")  # the new table that it depends on is filled too
    assert names(fill.computed.of(app.plan).nodes) == [
        *("words", "shown.select_key", "longest-repartition", "longest", "longest.table_group_by"),
        *("both-repartition", "both"),
    ]
    assert names(fill.remaining.of(app.plan).nodes) == [
        *("words", "words.select_key", "seen-repartition", "seen", "seen.to_stream", "seen.sink", "shown")
    ]


def test_records_that_retention_has_deleted_are_counted(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("words", TopicConfig(partitions=2))
        log.append([Output("words", 1, block_of([b"a"] * 5, [b"a"] * 5, [1, 2, 3, 4, 5]))])
        assert expired(log, ["words"]) == {}
        log.delete_before("words", 1, 3)
        assert expired(log, ["words"]) == {"words": 3}
