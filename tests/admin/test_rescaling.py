"""Rescaling: all rows are kept, each in the partition of its key, and the app continues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.assembling import assemble, local_loop

from millstream import App, tumbling
from millstream.admin.rescaling import rescale
from millstream.admin.upgrade import upgrade
from millstream.batch.journal import Journal
from millstream.broker import Output, TopicConfig
from millstream.errors import DefinitionError, UpgradeError
from millstream.foundation.blocks import block_of
from millstream.foundation.partitioning import partition_of
from millstream.foundation.paths import journal_dir, state_dir
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.tables.opening import catalog_of, open_tables
from millstream.tables.rows import TableReader

WORDS = [f"word{number}" for number in range(30)]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path, durability="os") as log:
        log.create_topic("lines", TopicConfig(partitions=2))
        log.create_topic("out", TopicConfig(partitions=1))
        yield log
    close_environments(tmp_path)


@pytest.fixture
def app() -> App:
    """Count by word in the stage that reads the topic, and by length and window in the next stage."""
    app = App("words")
    words = app.stream("lines", value=str)
    words.group_by_key().count(name="words").to_stream().to("out")
    windows = words.group_by(lambda line: len(line)).windowed_by(tumbling("1 s", grace="1 h"))
    windows.count(name="lengths")
    return app


def feed(log: EmbeddedLog, words: list[str], time: int) -> None:
    count = log.topic("lines").partitions
    for word in words:
        key = word.encode()
        log.append([Output("lines", partition_of(key, count), block_of([key], [key], [time]))])


def run(app: App, log: EmbeddedLog, directory: Path) -> None:
    """Run the app until it has caught up, as a run on Spark does."""
    assembly = assemble(app, log, state_dir=str(state_dir(directory, app.id)), durable=False)
    journal = Journal(journal_dir(directory, app.id), durable=False)
    upgrade(journal, state_dir(directory, app.id), catalog_of(assembly.layout))
    local_loop(assembly, journal).run("caught-up")


def rows(app: App, directory: Path, table: str) -> dict[object, object]:
    return dict(open_tables(directory, app.id, app.plan)[table].items())


def test_rows_are_moved_and_the_app_continues(app: App, log: EmbeddedLog, tmp_path: Path) -> None:
    feed(log, WORDS * 2, 500)
    run(app, log, tmp_path)
    before = rows(app, tmp_path, "words"), rows(app, tmp_path, "lengths")

    done = rescale(log, tmp_path, app.id, app.plan, 5)

    assert {stage.stage: (stage.before, stage.now) for stage in done} == {
        "lines": (2, 5),
        "lengths-repartition": (2, 5),
    }
    assert log.topic("lines").partitions == 5
    assert (rows(app, tmp_path, "words"), rows(app, tmp_path, "lengths")) == before
    reader: TableReader = open_tables(tmp_path, app.id, app.plan)["words"]
    assert all(reader[word] == 2 for word in WORDS)
    assert len({partition for word in WORDS for partition in reader.partitions_of(word)}) > 2
    feed(log, [*WORDS, "new"], 700)
    run(app, log, tmp_path)
    assert rows(app, tmp_path, "words") == {**dict.fromkeys(WORDS, 3), "new": 1}
    lengths = Counter(len(word) for word in [*WORDS * 3, "new"])
    assert {window.key: count for window, count in rows(app, tmp_path, "lengths").items()} == lengths  # type: ignore[attr-defined]
    assert sorted(path.name for path in state_dir(tmp_path, app.id).iterdir()) == ["lengths-repartition", "lines"]


def test_the_same_number_of_partitions_moves_nothing(app: App, log: EmbeddedLog, tmp_path: Path) -> None:
    feed(log, WORDS, 500)
    run(app, log, tmp_path)
    assert rescale(log, tmp_path, app.id, app.plan, 2) == []


def test_a_killed_rescaling_is_undone(app: App, log: EmbeddedLog, tmp_path: Path) -> None:
    feed(log, WORDS, 500)
    run(app, log, tmp_path)
    close_environments(tmp_path / "apps")
    state = state_dir(tmp_path, app.id)
    (state / "lines").rename(state / "lines.before-rescale")
    (state / "lines.rescaled").mkdir()
    rescale(log, tmp_path, app.id, app.plan, 3)
    assert rows(app, tmp_path, "words") == dict.fromkeys(WORDS, 1)


Prepare = Callable[[App, EmbeddedLog, Path], None]


def _add_input(app: App, log: EmbeddedLog, directory: Path) -> None:
    feed(log, ["more"], 600)


def _change_topology(app: App, log: EmbeddedLog, directory: Path) -> None:
    app.stream("lines", value=str).filter(bool).to("out")


@pytest.mark.parametrize(
    ("prepare", "count", "message"),
    [
        (_add_input, 4, "the app has unprocessed input: 1 records are waiting"),
        (_change_topology, 4, "the topology has changed since the last run"),
        (None, 1, "topic 'lines' has 2 partitions and cannot shrink to 1"),
    ],
)
def test_an_impossible_rescaling_is_rejected(
    app: App, log: EmbeddedLog, tmp_path: Path, prepare: Prepare | None, count: int, message: str
) -> None:
    feed(log, WORDS, 500)
    run(app, log, tmp_path)
    if prepare is not None:
        prepare(app, log, tmp_path)
    with pytest.raises((UpgradeError, DefinitionError), match=message):
        rescale(log, tmp_path, app.id, app.plan, count)
    assert log.topic("lines").partitions == 2


def test_the_error_for_a_store_that_cannot_be_moved_names_it(log: EmbeddedLog, tmp_path: Path) -> None:
    app = App("final")
    windows = app.stream("lines", value=str).group_by_key().windowed_by(tumbling("1 s", grace="1 s"))
    windows.emit("final").count(name="seconds").to_stream(lambda window, _: window.key).to("out")
    feed(log, WORDS, 500)
    run(app, log, tmp_path)
    with pytest.raises(UpgradeError, match="store 'seconds' of stage 'lines' cannot be moved"):
        rescale(log, tmp_path, app.id, app.plan, 4)
