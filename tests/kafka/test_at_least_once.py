"""guarantee="at_least_once": output is published at once, and a crash repeats some of it; state and progress do not."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.assembling import local_loop
from tests.crash.trials import Trials
from tests.kafka.conftest import settle
from tests.kafka.hosts import Host, Run

from millstream import App, Config
from millstream.batch import write_behind
from millstream.broker import Output, TopicConfig
from millstream.errors import BrokerUnavailableError, DefinitionError, EngineError
from millstream.foundation.blocks import block_of
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster

pytestmark = pytest.mark.kafka
TRIALS = int(os.environ.get("MILLSTREAM_KAFKA_TRIALS", "2"))


class Counting:
    """A count of words, every update published, on one host whose state is written behind."""

    def __init__(self, kafka: KafkaBroker, cluster: Cluster, name: str, tmp_path: Path) -> None:
        self.kafka, self.cluster, self.name, self.tmp_path = kafka, cluster, name, tmp_path
        self.app = App(name, config=Config(partitions=1, caching=False, guarantee="at_least_once"))
        self.app.stream(f"{name}-words", value=str).group_by(lambda word: word).count(name="words").to_stream().to(
            f"{name}-counts"
        )
        for topic in ("words", "counts"):
            kafka.create_topic(f"{name}-{topic}", TopicConfig(partitions=1))

    def send(self, *words: str) -> None:
        values = [f'"{word}"'.encode() for word in words]
        self.kafka.append([Output(f"{self.name}-words", 0, block_of([None] * len(words), values, [0] * len(words)))])

    def host(self, disk: str) -> Host:
        return Host(self.app, self.cluster.url, self.tmp_path / disk, behind=True)

    def published(self) -> list[int]:
        """Return the counts that readers of committed records see now."""
        bounds = self.kafka.offsets(f"{self.name}-counts")[0]
        chunks = self.kafka.read(f"{self.name}-counts", 0, bounds.begin, bounds.end)
        return [int(value) for chunk in chunks for value in chunk.block.column(1).to_pylist()]


@pytest.fixture
def counting(kafka: KafkaBroker, cluster: Cluster, name: str, tmp_path: Path) -> Counting:
    return Counting(kafka, cluster, name, tmp_path)


def run_batches(run: Run, behind: write_behind.WriteBehind) -> None:
    """Process all records in batches of one record, and leave what is not committed yet."""
    local_loop(run.assembly, behind.journal, behind, batch_records=1).run("caught-up")


def test_output_is_visible_before_progress_and_repeated_after_a_crash_but_never_counted_twice(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_behind, "_COMMIT_SECONDS", 3600.0)
    counting.send("a", "a", "a")
    dying = counting.host("disk")
    with dying.running() as run:
        behind = run.write_behind()
        run_batches(run, behind)
        assert counting.published() == [1, 2, 3]
        assert run.journal_on_disk().read()[0].done == 0
        behind._abort()  # as if the process had died
        behind.journal.leave()
    dying.close()
    counting.send("a")
    other = counting.host("another-disk")
    other.run()
    other.close()
    assert counting.published() == [1, 2, 3, 1, 2, 3, 4]


def test_what_was_committed_is_not_repeated(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_behind, "_COMMIT_SECONDS", 0.0)
    counting.send("a", "a", "a")
    host = counting.host("disk")
    with host.running() as run:
        behind = run.write_behind()
        run_batches(run, behind)
        behind._abort()
        behind.journal.leave()
    host.close()
    counting.send("a")
    other = counting.host("another-disk")
    other.run()
    other.close()
    assert counting.published() == [1, 2, 3, 4]


def test_batches_that_cannot_be_committed_run_again(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_behind, "_COMMIT_SECONDS", 3600.0)
    counting.send("a", "a")
    host = counting.host("disk")
    with host.running() as run:
        behind = run.write_behind()
        run_batches(run, behind)

        def unavailable(_: object) -> None:
            raise BrokerUnavailableError("no broker responds", hint="wait")

        with monkeypatch.context() as patch:
            patch.setattr(behind.journal, "commit_deferred", unavailable)
            with pytest.raises(EngineError, match="could not be committed"):
                behind.flush()
        counting.send("a")
        with pytest.raises(EngineError, match="could not be committed"):
            run_batches(run, behind)
        behind.close()
        behind.journal.leave()
    host.run()
    host.close()
    assert counting.published() == [1, 2, 1, 2, 3]


@pytest.mark.crash
@pytest.mark.timeout(180 * (TRIALS + 1))
def test_a_killed_app_loses_nothing_and_its_tables_are_exact(artifacts: None, tmp_path: Path) -> None:
    seed = int(os.environ.get("MILLSTREAM_SEED", random.randrange(1_000_000)))
    print(f"seed {seed}, {TRIALS} trials")
    with Cluster() as own, KafkaBroker(own.url) as broker:
        trials = Trials(tmp_path, broker, seed, "behind", ("two_levels", "windowed"), own.url, repeats="yes")
        for _ in range(TRIALS):
            trials.kill_at_random(3.0)
            trials.lose_disk()
        result = trials.result(lambda: settle(broker, own.bootstrap, *broker.topic_names()))
    assert result.losses == 0, result.notes
    assert not [note for note in result.notes if "table" in note], result.notes
    assert result.records > 0


def test_it_is_refused_without_changelogs() -> None:
    with pytest.raises(DefinitionError, match="requires changelogs"):
        Config(guarantee="at_least_once", changelogs=False)
