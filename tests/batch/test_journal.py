from pathlib import Path

from millstream.batch.batch import Batch, Progress, offsets_of, progress_after
from millstream.batch.journal import Journal
from millstream.records import TopicPartition
from millstream.state.task import StateVersion
from millstream.task.report import TaskReport
from millstream.task.task_input import Range

BATCH = Batch(number=4, wall_time=1_000, ranges=(Range("n", 0, 7, 9), Range("a/b", 1, 0, 5)))
PROGRESS = Progress(done=3, positions={"n/0": 7}, versions={"n/0": StateVersion(3, "c")})


def test_a_new_journal_is_empty(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    assert (journal.read(), journal.catalog()) == ((Progress(), None), {})
    journal.close()


def test_progress_and_planned_batch_survive_reopening(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.write(PROGRESS, BATCH)
    journal.write_catalog({"tables": [{"name": "words"}]})
    journal.close()
    journal = Journal(tmp_path / "journal")
    assert journal.read() == (PROGRESS, BATCH)
    assert journal.catalog() == {"tables": [{"name": "words"}]}
    journal.write(PROGRESS, None)
    assert journal.read() == (PROGRESS, None)
    journal.close()


def test_a_journal_can_be_opened_read_only(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.write(PROGRESS, BATCH)
    journal.close()
    reader = Journal(tmp_path / "journal", readonly=True)
    assert reader.read() == (PROGRESS, BATCH)
    reader.close()


def test_a_batch_advances_positions_and_the_versions_of_tasks_that_had_work() -> None:
    reports = [TaskReport(task=0, version=4, commit="d"), TaskReport(task=1, version=0, commit="")]
    after = progress_after(PROGRESS, BATCH, ["n/0", "n/1"], reports)
    assert after == Progress(done=4, positions={"n/0": 9, "a/b/1": 5}, versions={"n/0": StateVersion(4, "d")})
    assert offsets_of(after) == {TopicPartition("n", 0): 9, TopicPartition("a/b", 1): 5}
    assert (BATCH.records, PROGRESS.position("n", 0), PROGRESS.position("n", 1)) == (7, 7, None)


def test_a_change_of_the_plan_is_stored_with_the_old_plan(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    assert journal.deployed() is None
    journal.write_catalog({"tables": [], "plan": {"nodes": ["a"]}})
    first = journal.deployed()
    assert first is not None
    assert first.before is None
    journal.write_catalog({"tables": [], "plan": {"nodes": ["a"]}})
    assert journal.deployed() == first
    journal.write_catalog({"tables": [], "plan": {"nodes": ["a", "b"]}})
    second = journal.deployed()
    assert second is not None
    assert (second.before, second.at >= first.at) == ({"nodes": ["a"]}, True)
    journal.close()
