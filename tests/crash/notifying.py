"""A process that is killed: it raises alerts and sends them to a chat, without Spark, until it dies."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from tests.assembling import assemble, local_loop

from millstream import App
from millstream.batch.journal import Journal
from millstream.broker import TopicConfig
from millstream.connect.sinks import sinks_of
from millstream.connectors.slack import Slack
from millstream.foundation.paths import journal_dir, state_dir
from millstream.log import EmbeddedLog

app = App("notifying")
hot = app.stream("heat", value=int).alert(
    "hot", when=lambda celsius: celsius > 90, clock="wall", summary="{key} has <{value}> °C"
)
hot.notify(
    Slack(os.environ.get("CHAT_URL", "http://127.0.0.1:1/hook"), text="{value}"),
    name="team",
    group_by=["key"],
    group_wait="20 ms",
    group_interval="40 ms",
    repeat_interval="1 h",
)


def main(directory: Path) -> None:
    """Print ``running`` after each batch."""
    app.data_dir = directory
    app.create_topics()
    log = EmbeddedLog(directory)
    journal = Journal(journal_dir(directory, app.id))
    topics = TopicConfig(partitions=2)
    states = str(state_dir(directory, app.id))
    assembly = assemble(app, log, lineage=journal.lineage(), state_dir=states, durable=True, new_topic=topics)
    for sink in sinks_of(app._spec(), log):
        threading.Thread(target=sink.run, args=("stopped",), daemon=True).start()
    local_loop(assembly, journal, batch_records=50, on_batch=lambda _: print("running", flush=True)).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
