"""The events that a benchmark reads: a log for Millstream, files for Flink and a database for the reference."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import msgspec
from benchmarks.nexmark.load import TOPICS, create_topics, load
from benchmarks.nexmark.model import events, side_rows
from benchmarks.nexmark.reference import fill

from millstream.broker import Broker
from millstream.log import EmbeddedLog

_SIDE = "side"


class Backlog:
    """The same events in three forms, in a directory that can be kept for the next run."""

    def __init__(self, directory: Path) -> None:
        self.log = directory / "log"
        self.files = directory / "files"
        self.database = directory / "reference.duckdb"
        self._marker = directory / "events"

    def prepare(self, count: int, partitions: int) -> None:
        """Generate the events, unless they are there already."""
        if self._marker.exists() and self._marker.read_text() == f"{count} {partitions}":
            return
        directory = self._marker.parent
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        generated = list(events(count))
        with EmbeddedLog(self.log) as log:
            create_topics(log, partitions)
            load(log, generated, partitions)
            write_files(log, self.files)
        with duckdb.connect(self.database) as connection:
            fill(connection, generated)
        self._marker.write_text(f"{count} {partitions}")  # last, so that an interrupted generation is repeated

    def reference(self) -> duckdb.DuckDBPyConnection:
        """Open the database of the reference."""
        return duckdb.connect(self.database, read_only=True)


def write_files(broker: Broker, directory: Path) -> None:
    """Write the topics to files of JSON lines, ``TOPIC/PARTITION.json``; the bounded table to one, with its keys."""
    for topic in TOPICS:
        (directory / topic).mkdir(parents=True)
        for partition, offsets in enumerate(broker.offsets(topic)):
            if topic == _SIDE:
                continue
            with (directory / topic / f"{partition}.json").open("wb") as file:
                for chunk in broker.read(topic, partition, offsets.begin, offsets.end):
                    file.writelines(value + b"\n" for value in chunk.block.column(1).to_pylist())
    rows = (msgspec.json.encode({"key": key, **row}) + b"\n" for key, row in side_rows())
    (directory / _SIDE / "0.json").write_bytes(b"".join(rows))
