"""Every change of a topology with state keeps the state or is rejected; no state is lost without an error."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import run_to_end

from millstream import App, Processor, punctuate, tumbling
from millstream.admin.upgrade import upgrade
from millstream.batch.batch import Batch
from millstream.batch.journal import Journal, StateMerge, StateMigration
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
WORDS = [b"7", b"8", b"7"]  # valid as text and as JSON


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., list[str]]]:
    """Send three words, run a topology on the state of the previous one, and return the changes of its stages."""
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


class Timed(Processor):
    """Has a timer that is never due in a test."""

    @punctuate(every="1 h", on="wall")
    def check(self, time: int) -> None:
        pass

    def process(self, record: Any) -> None:
        self.context.forward(record)


def rows(directory: Path, table: str = "seen") -> dict[str, Any]:
    return {str(getattr(key, "key", key)): value for key, value in open_tables(directory, "test")[table].items()}


def count_words(app: App) -> None:
    app.stream("words", value=str).group_by(lambda word: word).count(name="seen")


KEEPS_STATE: dict[str, Define] = {
    "no change": count_words,
    "a new stateless step before": lambda app: (
        app.stream("words", value=str).filter(bool).map_values(str.lower).group_by(lambda w: w).count(name="seen")
    ),
    "a new stateless step after, and a sink": lambda app: (
        app.stream("words", value=str).group_by(lambda w: w).count(name="seen").to_stream().filter(bool).to("out")
    ),
    "another function": lambda app: app.stream("words", value=str).group_by(lambda w: w[:1]).count(name="seen"),
    "a new stage": lambda app: (
        app.stream("words", value=str).group_by(lambda w: w).count(name="seen"),
        app.stream("words", value=str).group_by(lambda w: len(w)).count(name="lengths"),
    ),
    "a new table with the same key": lambda app: (
        app.stream("words", value=str).group_by(lambda w: w).count(name="seen"),
        app.stream("words", value=str).group_by(lambda w: w).collect(name="all"),
    ),
    "a new source that is merged": lambda app: (
        app.stream("words", value=str).merge(app.stream("more", value=str)).group_by(lambda w: w).count(name="seen")
    ),
}


@pytest.mark.parametrize("change", KEEPS_STATE)
def test_state_is_kept_if_the_change_does_not_affect_it(
    start: Callable[..., list[str]], tmp_path: Path, change: str
) -> None:
    assert start(count_words) == []
    fates = start(KEEPS_STATE[change])
    assert rows(tmp_path) == {"7": 4, "8": 2}
    assert not any(fate.startswith("incompatible") for fate in fates)
    fates = start(count_words)
    assert rows(tmp_path) == {"7": 6, "8": 3}
    assert not any(fate.startswith("incompatible") for fate in fates)


REJECTED: dict[str, tuple[Define, Define, str]] = {
    "another kind of step": (
        count_words,
        lambda app: app.stream("words", value=str).group_by(lambda w: w).reduce(max, name="seen"),
        "stage 'seen-repartition': 'seen' was created by count and would be created by reduce",
    ),
    "windows on a table without windows": (
        count_words,
        lambda app: app.stream("words").group_by(lambda w: w).windowed_by(tumbling("1 s")).count(name="seen"),
        "'seen' was created by count and would be created by windowed_aggregate",
    ),
    "windows of another size": (
        lambda app: app.stream("words").group_by_key().windowed_by(tumbling("1 s")).count(name="seen"),
        lambda app: app.stream("words").group_by_key().windowed_by(tumbling("2 s")).count(name="seen"),
        "'seen' was windowed by type=time size=1000 advance=1000 and would be windowed by type=time size=2000",
    ),
    "another built-in aggregation": (
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
    "split state": (
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


@pytest.mark.parametrize("change", REJECTED)
def test_an_incompatible_change_is_rejected_with_a_reason_and_changes_nothing(
    start: Callable[..., list[str]], tmp_path: Path, change: str
) -> None:
    before, after, reason = REJECTED[change]
    start(before)
    rows_before = rows(tmp_path)
    assert rows_before
    with pytest.raises(UpgradeError, match="the state does not fit the changed topology") as caught:
        start(after)
    assert reason in str(caught.value)
    assert rows(tmp_path) == rows_before
    start(before)
    assert sum(rows(tmp_path).values()) == 3 * sum(rows_before.values())  # including the words of the rejected run


def test_a_stage_that_is_reset_starts_empty_and_others_continue(
    start: Callable[..., list[str]], tmp_path: Path
) -> None:
    def both(app: App) -> None:
        count_words(app)
        app.stream("words", value=str).group_by(str.lower).reduce(max, name="largest")

    def changed(app: App) -> None:
        app.stream("words", value=str).group_by(lambda word: word).reduce(max, name="seen")
        app.stream("words", value=str).group_by(str.lower).reduce(max, name="largest")

    start(both)
    with pytest.raises(UpgradeError, match="start empty with --reset seen-repartition"):
        start(changed)
    start(changed, reset=["seen-repartition"])
    assert rows(tmp_path) == {"7": "7", "8": "8"}
    with pytest.raises(DefinitionError, match="there is no stage 'sene' to reset; stages: largest-repartition, seen"):
        start(changed, reset=["sene"])


def test_a_stage_that_is_dropped_and_added_again_reports_the_batches_it_missed(
    start: Callable[..., list[str]], tmp_path: Path
) -> None:
    def copy_words(app: App) -> None:
        app.stream("words", value=str).to("copies")

    start(count_words)
    fates = start(copy_words)
    assert "dropped seen-repartition: the rows of seen stay on disk and are no longer updated" in " ".join(
        " ".join(fate.split()) for fate in fates
    )
    fates = start(count_words)
    assert "seen is used again, without the records since batch 1" in " ".join(fates)
    assert rows(tmp_path) == {"7": 4, "8": 2}  # six of nine words


def test_a_dropped_stage_cannot_be_added_again_with_another_meaning(start: Callable[..., list[str]]) -> None:
    start(count_words)
    start(lambda app: app.stream("words", value=str).to("copies"))
    with pytest.raises(UpgradeError, match="'seen' was created by count and would be created by reduce"):
        start(lambda app: app.stream("words", value=str).group_by(lambda w: w).reduce(max, name="seen"))


def test_the_state_of_a_renamed_stage_is_moved(start: Callable[..., list[str]], tmp_path: Path) -> None:
    start(lambda app: app.stream("words").group_by_key().count(name="seen"))
    fates = start(lambda app: app.stream("more").merge(app.stream("words")).group_by_key().count(name="seen"))
    assert any("uses the state of 'words'" in fate for fate in fates)
    assert rows(tmp_path) == {"7": 4, "8": 2}
    assert not (state_dir(tmp_path, "test") / "words").exists()


def test_moves_of_directories_are_completed_after_a_crash(start: Callable[..., list[str]], tmp_path: Path) -> None:
    """The process died after the commit and before it moved a directory."""
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


def count_and_collect(app: App) -> None:
    """Both tables read one edge, since they group the same stream by the same key."""
    words = app.stream("words", value=str)
    words.group_by(lambda word: word).count(name="seen")
    words.group_by(lambda word: word).collect(name="all").to_stream().process(Timed, name="timed").to("out")


def count_and_collect_apart(app: App) -> None:
    """Each table has its own stage, as before Millstream merged equal groupings."""
    words = app.stream("words", value=str)
    words.group_by(lambda word: word).count(name="seen")
    words.group_by(lambda word: str(word)).collect(name="all").to_stream().process(Timed, name="timed").to("out")


def test_the_states_of_stages_that_become_one_are_merged(start: Callable[..., list[str]], tmp_path: Path) -> None:
    start(count_and_collect_apart)
    fates = start(count_and_collect)
    assert any("seen-repartition: uses the state of 'all-repartition'" in fate for fate in fates)
    assert rows(tmp_path) == {"7": 4, "8": 2}
    assert rows(tmp_path, "all") == {"7": ["7"] * 4, "8": ["8"] * 2}
    states = {path.name for path in state_dir(tmp_path, "test").iterdir()}
    assert "seen-repartition" in states
    assert not {state for state in states if state.startswith("all-repartition")}
    assert start(count_and_collect) == start(count_and_collect)
    assert rows(tmp_path, "all") == {"7": ["7"] * 8, "8": ["8"] * 4}


def test_timers_of_a_stage_that_becomes_part_of_another_one_stay(
    start: Callable[..., list[str]], tmp_path: Path
) -> None:
    start(count_and_collect_apart)
    start(count_and_collect)
    journal = Journal(journal_dir(tmp_path, "test"))
    progress, _ = journal.read()
    assert {task for task, due in progress.timers.items() if due} <= {"seen-repartition/0", "seen-repartition/1"}
    assert any("timed" in due for due in progress.timers.values())


def test_merges_of_states_are_completed_after_a_crash(start: Callable[..., list[str]], tmp_path: Path) -> None:
    """The process died after the commit, when it had merged the state of one task and not deleted anything."""
    start(count_and_collect_apart)
    app = App("test", data_dir=tmp_path)
    count_and_collect(app)
    state = state_dir(tmp_path, "test")
    kept = tmp_path / "kept"
    shutil.copytree(state / "all-repartition", kept)
    journal = Journal(journal_dir(tmp_path, "test"))
    upgrade(journal, state, catalog_of(Layout.of(app.plan, {"words": 2})))
    close_environments(state)
    shutil.copytree(kept, state / "all-repartition")
    merge = StateMerge(into="seen-repartition", stores=("all",))
    journal.write_catalog(journal.catalog(), None, StateMigration(merge={"all-repartition": merge}))
    journal.close()
    start(count_and_collect)
    assert rows(tmp_path, "all") == {"7": ["7"] * 4, "8": ["8"] * 2}
    assert not (state / "all-repartition").exists()


def test_stages_are_not_merged_while_a_batch_is_unfinished(start: Callable[..., list[str]], tmp_path: Path) -> None:
    start(count_and_collect_apart)
    journal = Journal(journal_dir(tmp_path, "test"))
    progress, _ = journal.read()
    journal.write(progress, Batch(number=2, wall_time=0, ranges=(Range("words", 0, 3, 6),)))
    journal.close()
    with pytest.raises(UpgradeError, match="stage 'all-repartition' becomes part of 'seen-repartition'"):
        start(count_and_collect)
    start(count_and_collect_apart)
    assert rows(tmp_path) == {"7": 6, "8": 3}


def test_a_table_cannot_join_an_edge_without_values_while_a_batch_is_unfinished(
    start: Callable[..., list[str]], tmp_path: Path
) -> None:
    """The stored part of the batch has only the keys, since the count needed no more."""
    start(count_words)
    journal = Journal(journal_dir(tmp_path, "test"))
    progress, _ = journal.read()
    journal.write(progress, Batch(number=2, wall_time=0, ranges=(Range("words", 0, 3, 6),)))
    journal.close()
    with pytest.raises(UpgradeError, match="records on 'seen-repartition' have another format"):
        start(count_and_collect)


def test_stages_whose_state_is_elsewhere_are_not_merged(start: Callable[..., list[str]], tmp_path: Path) -> None:
    start(count_and_collect_apart)
    close_environments(tmp_path)
    (state_dir(tmp_path, "test") / "all-repartition").rename(tmp_path / "elsewhere")
    with pytest.raises(UpgradeError, match=r"'all-repartition' would become part of .* it is not on this host"):
        start(count_and_collect)


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (lambda app: app.stream("more").merge(app.stream("words")).repartition(2, name="m").to("out"), "another name"),
        (lambda app: app.stream("words").repartition(3, name="m").to("out"), "'m' has another number of partitions"),
        (lambda app: app.stream("words", key=bytes).repartition(2, name="m").to("out"), "have another format"),
    ],
)
def test_a_change_that_an_unfinished_batch_cannot_survive_is_rejected(
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


def test_a_stage_can_be_dropped_while_a_batch_with_shuffle_data_for_it_is_unfinished(
    start: Callable[..., list[str]], tmp_path: Path
) -> None:
    """The task of the first stage has committed the batch, with shuffle data for a stage that no longer exists."""

    def failing(app: App) -> None:
        words = app.stream("words", value=str)
        words.group_by(lambda word: word).count(name="seen")
        words.group_by(str.lower).reduce(lambda a, b: a + 1 // 0 * b, name="broken")

    with pytest.raises(Exception, match="broken"):
        start(failing)
    fates = start(count_words)
    assert any(fate.startswith("dropped") and "broken" in fate for fate in fates)
    assert rows(tmp_path) == {"7": 4, "8": 2}
