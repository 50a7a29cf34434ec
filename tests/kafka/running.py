"""Run an app until it has caught up in this process, on any broker, without Spark."""

from __future__ import annotations

from tests.assembling import assemble, local_loop

from millstream import App
from millstream.batch.journal import Journal
from millstream.broker import Broker
from millstream.foundation.paths import journal_dir
from millstream.foundation.storage import close_environments


def run_to_end(app: App, broker: Broker) -> None:
    """Process all records, with the same loop and tasks as on Spark."""
    journal = Journal(journal_dir(app.data_dir, app.id))
    assembly = assemble(app, broker, lineage=journal.lineage(), new_topic=None)
    try:
        local_loop(assembly, journal).run("caught-up")
    finally:
        close_environments(app.data_dir)
