"""A process that is killed: it runs batches with records and with timers only, without Spark, until it dies."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.assembling import assemble, local_loop

from millstream import App, Processor, Record, key_value_store, punctuate
from millstream.batch.journal import Journal
from millstream.log import EmbeddedLog


class Numbers(Processor):
    """Counts records and calls of a timer, so that a lost one is a gap and a duplicate is a repetition."""

    stores = {"kept": key_value_store(value=int)}

    def process(self, record: Record) -> None:
        self.count("records")

    @punctuate(every="3 ms", on="wall")
    def tick(self, now: int) -> None:
        self.count("ticks")

    def count(self, counter: str) -> None:
        kept = self.context.store("kept")
        kept.put(counter, kept.get(counter, 0) + 1)
        self.context.forward(key=counter, value=kept[counter])


app = App("ticking")
app.stream("n", value=int).process(Numbers, name="numbers").to("counts")


def main(directory: Path) -> None:
    """Print ``running`` after each batch."""
    log = EmbeddedLog(directory)
    assembly = assemble(app, log, state_dir=str(directory / "state"), caching=False)
    journal = Journal(directory / "journal")
    local_loop(assembly, journal, batch_records=50, on_batch=lambda _: print("running", flush=True)).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
