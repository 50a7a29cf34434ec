"""What reads and writes a damaged directory beside apps: a source, a sink into SQLite and a queue."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.kafka.numbers_source import Numbers

from millstream.batch.app_spec import AppSettings
from millstream.broker import TopicConfig
from millstream.config import Config
from millstream.connect.sinks import SinkInput, sink_connector
from millstream.connect.sources import source_connector
from millstream.connectors.sql_tables.sqlite import SqliteTable
from millstream.log import EmbeddedLog
from millstream.queues.share_consumer import ShareConsumer

APP = "moved"
TOPIC = "numbers"
CLIENT_PARTS = {
    "journal of a source": f"connectors/{APP}/counter",
    "journal of a sink": f"apps/{APP}/deliveries/{APP}.sink.rows",
    "share groups": "log/shares/state",
}


def run_clients(directory: Path, limit: int) -> None:
    """Move the numbers up to ``limit`` through a topic into SQLite, and let a queue process them."""
    settings = AppSettings(id=APP, config=Config(partitions=2), data_dir=directory)
    with EmbeddedLog(directory) as log:
        if TOPIC not in log.topic_names():
            log.create_topic(TOPIC, TopicConfig(partitions=2))
        source = source_connector(settings, log, "counter", Numbers(TOPIC, limit))
        source.run("caught-up")
        source.write_status()
        table = SqliteTable(directory / "rows.db", "rows")
        sink = sink_connector(settings, log, "rows", table, SinkInput(topics=[TOPIC]))
        sink.run("caught-up")
        sink.write_status()
        with (
            ShareConsumer(log, "workers", topics=TOPIC, start="earliest") as consumer,
            (directory / "processed").open("a") as processed,
        ):
            while records := consumer.poll("100 ms"):
                for record in records:
                    processed.write(f"{record.partition} {record.offset}\n")
                    consumer.accept(record)
                consumer.commit()


def client_content(directory: Path) -> dict[str, Any]:
    """Return the rows in SQLite, and the records that the queue has processed; without a crash, each is there once."""
    with closing(sqlite3.connect(directory / "rows.db")) as connection:
        rows = connection.execute("SELECT * FROM rows ORDER BY 1").fetchall()
    return {"rows": rows, "processed": sorted((directory / "processed").read_text().splitlines())}
