"""Every change of a topology on existing state goes on or is refused by name; nothing begins anew in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import run_to_end

from millstream import App, tumbling
from millstream.admin.upgrade import upgrade
from millstream.batch.batch import Batch
from millstream.batch.journal import Journal, StateMigration
from millstream.broker import Output, TopicConfig
from millstream.errors import DefinitionError, UpgradeError
from millstream.foundation.blocks import block_of
from millstream.foundation.paths import journal_dir, state_dir
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.plan.layout import Layout
from millstream.tables.opening import catalog_of, open_tables
from millstream.task.task_input import Range

Define = Callable[[App], Any]
WORDS = [b"7", b"8", b"7"]  # text and JSON alike


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., list[str]]]:
    """Feed three words, run a topology on the same state as the last one, and return what became of its stages."""
    with EmbeddedLog(tmp_path) as log:
        for topic in ("words", "more", "out", "copies"):
            log.create_topic(topic, TopicConfig(partitions=1 if topic == "copies" else 2))

    def start(define: Define, **options: Any) -> list[str]:
        with EmbeddedLog(tmp_path) as log:
            log.append([Output("words", 0, block_of(WORDS, WORDS, [0, 1, 2]))])
        app = App("test", data_dir=tmp_path)
        define(app)
        return [str(change).replace("  ", " ").strip() for change in run_to_end(app, **options)]

    yield start
    close_environments(tmp_path)


def rows(directory: Path, table: str = "seen") -> dict[str, Any]:
    return {str(getattr(key, "key", key)): value for key, value in open_tables(directory, "test")[table].items()}


def counting(app: App) -> None:
    app.stream("words", value=str).group_by(lambda word: word).count(name="seen")


KEEPS_STATE: dict[str, Define] = {
    "the same again": counting,
    "a stateless step before": lambda app: (
        app.stream("words", value=str).filter(bool).map_values(str.lower).group_by(lambda w: w).count(name="seen")
    ),
    "a stateless step after, and a sink": lambda app: (
        app.stream("words", value=str).group_by(lambda w: w).count(name="seen").to_stream().filter(bool).to("out")
    ),
    "another function": lambda app: app.stream("words", value=str).group_by(lambda w: w[:1]).count(name="seen"),
    "a whole stage more": lambda app: (
        app.stream("words", value=str).group_by(lambda w: w).count(name="seen"),
        app.stream("words", value=str).group_by(lambda w: len(w)).count(name="lengths"),
    ),
    "a source more that is merged in": lambda app: (
        app.stream("words", value=str).merge(app.stream("more", value=str)).group_by(lambda w: w).count(name="seen")
    ),
}


@pytest.mark.parametrize("change", KEEPS_STATE)
def test_state_goes_on_where_the_change_does_not_concern_it(
    start: Callable[..., list[str]], tmp_path: Path, change: str
) -> None:
    assert start(counting) == []
    fates = start(KEEPS_STATE[change])
    assert rows(tmp_path) == {"7": 4, "8": 2}
    assert not any(fate.startswith("incompatible") for fate in fates)
    fates = start(counting)
    assert rows(tmp_path) == {"7": 6, "8": 3}
    assert not any(fate.startswith("incompatible") for fate in fates)


REFUSED: dict[str, tuple[Define, Define, str]] = {
    "another kind of step": (
        counting,
        lambda app: app.stream("words", value=str).group_by(lambda w: w).reduce(max, name="seen"),
        "stage 'seen-repartition': 'seen' was created by count and would be created by reduce",
    ),
    "windows where there were none": (
        counting,
        lambda app: app.stream("words").group_by(lambda w: w).windowed_by(tumbling("1 s")).count(name="seen"),
        "'seen' was created by count and would be created by windowed_aggregate",
    ),
    "windows of another size": (
        lambda app: app.stream("words").group_by_key().windowed_by(tumbling("1 s")).count(name="seen"),
        lambda app: app.stream("words").group_by_key().windowed_by(tumbling("2 s")).count(name="seen"),
        "'seen' was windowed by type=time size=1000 advance=1000 and would be windowed by type=time size=2000",
    ),
    "another ready aggregation": (
        lambda app: app.stream("words").group_by_key().sum(name="seen"),
        lambda app: app.stream("words").group_by_key().mean(name="seen"),
        "stage 'words': 'seen' was aggregated by sum and would be aggregated by mean",
    ),
    "another type of key": (
        lambda app: app.stream("words", key=str).group_by_key().count(name="seen"),
        lambda app: app.stream("words", key=bytes).group_by_key().count(name="seen"),
        "stage 'words': 'seen' was keyed as str and would be keyed as bytes",
    ),
    "another number of partitions": (
        lambda app: app.stream("words").repartition(2, name="moved").group_by_key().count(name="seen"),
        lambda app: app.stream("words").repartition(3, name="moved").group_by_key().count(name="seen"),
        "stage 'moved': it has 2 partitions and would have 3",
    ),
    "two states that would be one": (
        lambda app: (
            app.stream("words").group_by_key().count(name="seen"),
            app.stream("more").group_by_key().count(name="seen_too"),
        ),
        lambda app: (
            (both := app.stream("words").merge(app.stream("more"))).group_by_key().count(name="seen"),
            both.group_by_key().count(name="seen_too"),
        ),
        "stage 'words': it would merge the state of stages 'more' and 'words'",
    ),
    "one state that would be two": (
        lambda app: (
            app.stream("words").group_by_key().count(name="seen"),
            app.stream("words").group_by_key().count(name="seen_too"),
        ),
        lambda app: (
            app.stream("words").group_by_key().count(name="seen"),
            app.stream("words").repartition(2, name="moved").group_by_key().count(name="seen_too"),
        ),
        "stage 'moved': the state of stage 'words' would be split",
    ),
}


@pytest.mark.parametrize("change", REFUSED)
def test_what_the_state_cannot_follow_is_refused_by_name_and_touches_nothing(
    start: Callable[..., list[str]], tmp_path: Path, change: str
) -> None:
    before, after, reason = REFUSED[change]
    start(before)
    found = rows(tmp_path)
    assert found
    with pytest.raises(UpgradeError, match="the state does not fit the changed topology") as refused:
        start(after)
    assert reason in str(refused.value)
    assert rows(tmp_path) == found
    start(before)
    assert sum(rows(tmp_path).values()) == 3 * sum(found.values())  # what was fed in between is there too


def test_a_stage_that_is_reset_begins_empty_and_others_go_on(start: Callable[..., list[str]], tmp_path: Path) -> None:
    def both(app: App) -> None:
        counting(app)
        app.stream("words", value=str).group_by(lambda word: word).reduce(max, name="largest")

    def changed(app: App) -> None:
        app.stream("words", value=str).group_by(lambda word: word).reduce(max, name="seen")
        app.stream("words", value=str).group_by(lambda word: word).reduce(max, name="largest")

    start(both)
    with pytest.raises(UpgradeError, match="begin empty with --reset seen-repartition"):
        start(changed)
    start(changed, reset=["seen-repartition"])
    assert rows(tmp_path) == {"7": "7", "8": "8"}
    with pytest.raises(DefinitionError, match="there is no stage 'sene' to reset; stages: largest-repartition, seen"):
        start(changed, reset=["sene"])


def test_a_stage_that_is_dropped_and_taken_back_says_what_it_missed(
    start: Callable[..., list[str]], tmp_path: Path
) -> None:
    def copying(app: App) -> None:
        app.stream("words", value=str).to("copies")

    start(counting)
    fates = start(copying)
    assert "dropped seen-repartition: the rows of seen stay on disk and are no longer updated" in " ".join(
        " ".join(fate.split()) for fate in fates
    )
    fates = start(counting)
    assert "seen is used again, without the records since batch 1" in " ".join(fates)
    assert rows(tmp_path) == {"7": 4, "8": 2}  # of nine words six


def test_a_stage_that_was_dropped_cannot_come_back_as_something_else(start: Callable[..., list[str]]) -> None:
    start(counting)
    start(lambda app: app.stream("words", value=str).to("copies"))
    with pytest.raises(UpgradeError, match="'seen' was created by count and would be created by reduce"):
        start(lambda app: app.stream("words", value=str).group_by(lambda w: w).reduce(max, name="seen"))


def test_state_moves_with_a_stage_that_gets_another_name(start: Callable[..., list[str]], tmp_path: Path) -> None:
    start(lambda app: app.stream("words").group_by_key().count(name="seen"))
    fates = start(lambda app: app.stream("more").merge(app.stream("words")).group_by_key().count(name="seen"))
    assert any("uses the state of 'words'" in fate for fate in fates)
    assert rows(tmp_path) == {"7": 4, "8": 2}
    assert not (state_dir(tmp_path, "test") / "words").exists()


def test_moving_and_deleting_is_made_good_after_a_crash(start: Callable[..., list[str]], tmp_path: Path) -> None:
    """The commit was made, and the process died before it touched a directory."""
    start(lambda app: app.stream("words").group_by_key().count(name="seen"))
    merged = App("test", data_dir=tmp_path)
    merged.stream("more").merge(merged.stream("words")).group_by_key().count(name="seen")
    journal = Journal(journal_dir(tmp_path, "test"))
    catalog = catalog_of(Layout.of(merged.plan, {"words": 2, "more": 2}))
    upgrade(journal, tmp_path / "elsewhere", catalog)
    journal.write_catalog(journal.catalog(), None, StateMigration(move={"words": "more"}))
    journal.close()
    start(lambda app: app.stream("more").merge(app.stream("words")).group_by_key().count(name="seen"))
    assert rows(tmp_path) == {"7": 4, "8": 2}


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (lambda app: app.stream("more").merge(app.stream("words")).repartition(2, name="m").to("out"), "another name"),
        (lambda app: app.stream("words").repartition(3, name="m").to("out"), "'m' has another number of partitions"),
        (lambda app: app.stream("words", key=bytes).repartition(2, name="m").to("out"), "written in another way"),
    ],
)
def test_a_batch_that_is_not_finished_must_still_make_sense(
    start: Callable[..., list[str]], tmp_path: Path, after: Define, reason: str
) -> None:
    def before(app: App) -> None:
        words = app.stream("words")
        words.group_by_key().count(name="seen")
        words.repartition(2, name="m").to("out")

    def with_count(app: App) -> None:
        after(app)
        if "another name" in reason:
            app.stream("more").merge(app.stream("words"), name="both").group_by_key().count(name="seen")

    start(before)
    journal = Journal(journal_dir(tmp_path, "test"))
    progress, _ = journal.read()
    journal.write(progress, Batch(number=2, wall_time=0, ranges=(Range("words", 0, 3, 6),)))
    journal.close()
    with pytest.raises(UpgradeError, match=f"batch 2 is not finished.*{reason}"):
        start(with_count)
    start(before)
    assert rows(tmp_path) == {"7": 6, "8": 3}


def test_a_stage_can_be_dropped_while_a_batch_with_letters_for_it_is_not_finished(
    start: Callable[..., list[str]], tmp_path: Path
) -> None:
    """The task of the first stage has committed the batch, with letters for a stage that is not there any more."""

    def failing(app: App) -> None:
        words = app.stream("words", value=str)
        words.group_by(lambda word: word).count(name="seen")
        words.group_by(lambda word: word).reduce(lambda a, b: a + 1 // 0 * b, name="broken")

    with pytest.raises(Exception, match="broken"):
        start(failing)
    fates = start(counting)
    assert any(fate.startswith("dropped") and "broken" in fate for fate in fates)
    assert rows(tmp_path) == {"7": 4, "8": 2}
