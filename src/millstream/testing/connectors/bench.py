"""Run one source or sink on a log of its own, as often as a test wants, and let it die at any step."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from millstream.batch.app_spec import AppSettings
from millstream.broker import TopicConfig
from millstream.config import Config
from millstream.connect.connector import Connector
from millstream.connect.protocols import Sink, Source
from millstream.connect.sinks import SinkInput, Transform, sink_connector
from millstream.connect.sources import source_connector
from millstream.foundation.paths import app_dir
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.producer import Producer
from millstream.records import Record, TopicPartition
from millstream.serdes import JSON, READABLE, Serde
from millstream.testing.connectors.dying import Died, SteppingBroker, SteppingSink, SteppingSource, Steps
from millstream.views.dead_letters import DeadLetter, read_dead_letters
from millstream.views.records import read_rounds

APP = "bench"
TOPIC = "changes"


class Bench:
    """An embedded log in a directory, and one connector on it."""

    def __init__(self, directory: Path, **config: Any) -> None:
        defaults = {"partitions": 2, "durability": "os", "on_error": "dead_letter", "max_batch_records": 100}
        self.app = AppSettings(id=APP, config=Config(**{**defaults, **config}), data_dir=directory)
        self.steps = Steps()
        with EmbeddedLog(directory, durability="os") as log:
            if TOPIC not in log.topic_names():
                log.create_topic(TOPIC, TopicConfig(partitions=2))

    def feed(self, *records: tuple[Any, Any], key: Serde = READABLE, value: Serde = JSON) -> None:
        """Append records to the topic that sinks read."""
        with (
            EmbeddedLog(self.app.data_dir, durability="os") as log,
            Producer(log, key=key, value=value) as producer,
        ):
            for item_key, item in records:
                producer.send(TOPIC, item, key=item_key)

    def records(self, topic: str = TOPIC) -> list[Record[bytes | None, bytes | None]]:
        """Return the raw records of a topic, partition by partition."""
        with EmbeddedLog(self.app.data_dir, durability="os") as log:
            return [
                record
                for partition in range(log.topic(topic).partitions)
                for records in read_rounds(
                    log,
                    {TopicPartition(topic, partition): log.offsets(topic)[partition].begin},
                    follow=False,
                    grow=False,
                )
                for record in records
            ]

    def dead_letters(self) -> list[DeadLetter]:
        """Return the dead letters so far."""
        topic = f"{APP}.dead-letters"
        with EmbeddedLog(self.app.data_dir, durability="os") as log:
            return list(read_dead_letters(log, topic)) if topic in log.topic_names() else []

    def reset(self) -> None:
        """Forget the progress of sinks, as a reset of an app does: the next run has another lineage."""
        close_environments(self.app.data_dir)
        shutil.rmtree(app_dir(self.app.data_dir, APP), ignore_errors=True)

    def run_sink(self, sink: Sink, *, die_at: int | None = None, transform: Transform | None = None) -> bool:
        """Write all records, and return True; or die at a step, and return False."""
        source = SinkInput(topics=[TOPIC], transform=transform)
        return self._run(
            die_at, lambda broker, steps: sink_connector(self.app, broker, "sink", SteppingSink(sink, steps), source)
        )

    def run_source(self, source: Source, *, die_at: int | None = None, patience: float = 60.0) -> bool:
        """Read until the source has nothing for ``patience`` seconds, and return True; or die, and return False."""
        return self._run(
            die_at,
            lambda broker, steps: source_connector(self.app, broker, "source", SteppingSource(source, steps, patience)),
        )

    def _run(self, die_at: int | None, connect: Callable[[Any, Steps], Connector]) -> bool:
        self.steps = steps = Steps(die_at)
        with EmbeddedLog(self.app.data_dir, durability="os") as log:
            connector = connect(SteppingBroker(log, steps), steps)
            _step_at_commits(connector.work.journal, steps)
            try:
                connector.run("caught-up")
            except Died:
                return False
            finally:
                close_environments(self.app.data_dir)
        return True


def _step_at_commits(journal: Any, steps: Steps) -> None:
    """Let the process die before and after each commit of a journal."""
    name = "commit" if hasattr(journal, "commit") else "write"
    commit = getattr(journal, name)

    def stepping(*arguments: Any) -> None:
        steps.reach("before the commit")
        commit(*arguments)
        steps.reach("after the commit")

    setattr(journal, name, stepping)
