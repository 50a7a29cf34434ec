"""A process that is killed: runs batches of records and of timers alone, without Spark, until it dies."""

from __future__ import annotations

import sys
from pathlib import Path

from millstream import App, Processor, Record, key_value_store, punctuate
from millstream.batch.execute import run_batch, task_names
from millstream.batch.journal import Journal
from millstream.batch.loop import BatchLoop
from millstream.batch.planner import BatchSize, Planner
from millstream.batch.timers import timed_tasks
from millstream.log import EmbeddedLog
from millstream.plan.layout import Layout
from millstream.task.environment import TaskEnvironment
from millstream.task.policy import Policies


class Numbers(Processor):
    """Counts records and calls of a timer, each number once: a lost one would be a gap, a doubled one a repeat."""

    stores = {"kept": key_value_store(value=int)}

    def process(self, record: Record) -> None:
        self.count("records")

    @punctuate(every="3 ms", on="wall")
    def tick(self, now: int) -> None:
        self.count("ticks")

    def count(self, what: str) -> None:
        kept = self.context.store("kept")
        kept.put(what, kept.get(what, 0) + 1)
        self.context.forward(key=what, value=kept[what])


app = App("ticking")
app.stream("n", value=int).process(Numbers, name="numbers").to("counts")


def main(directory: Path) -> None:
    """Say ``running`` when the first batch is done, and go on."""
    log = EmbeddedLog(directory)
    layout = Layout.of(app.plan, {"n": 1})
    site = TaskEnvironment("ticking", layout, log, directory / "state", Policies.of(app.id, app.config), caching=False)
    size = BatchSize(50, 1.0)
    loop = BatchLoop(
        app="ticking",
        broker=log,
        journal=Journal(directory / "journal"),
        planner=Planner(log, ["n"], size, timed=timed_tasks(layout)),
        size=size,
        task_names=task_names(layout),
        execute=lambda plan, versions: run_batch(site, plan, versions),
        on_batch=lambda _: print("running", flush=True),
    )
    loop.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
