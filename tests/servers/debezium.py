"""The real Debezium, embedded: its Postgres connector prints what it would write to Kafka."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from tests.servers.debian import NoServerError
from tests.servers.postgres import Postgres

from millstream.testing.kafka.artifacts import NoKafkaError, java_program, maven_jars

VERSION = "3.6.1.Final"
_ARTIFACTS = (
    f"io.debezium:debezium-embedded:{VERSION}",
    f"io.debezium:debezium-connector-postgres:{VERSION}",
    "org.slf4j:slf4j-nop:1.7.36",
)
_PROGRAM = Path(__file__).parent / "java" / "DebeziumShop.java"
_SETTINGS = {
    "name": "shop",
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
    "offset.flush.interval.ms": "0",
    "database.user": "postgres",
    "database.hostname": "127.0.0.1",
    "topic.prefix": "shop",
    "plugin.name": "pgoutput",
    "slot.name": "debezium",
    "publication.name": "debezium",
    "publication.autocreate.mode": "filtered",
    "skipped.operations": "none",
    "converter.schemas.enable": "false",
}


class Event(NamedTuple):
    """A record, decoded."""

    topic: str
    key: Any
    value: Any
    headers: dict[str, Any]


class Debezium:
    """Reads tables of a database from its start to its end."""

    def __init__(self, server: Postgres, database: str, tables: list[str]) -> None:
        try:
            java, jars = java_program(), maven_jars(f"debezium-{VERSION}", _ARTIFACTS)
        except NoKafkaError as reason:
            raise NoServerError(str(reason)) from reason
        own = {"database.port": server.port, "database.dbname": database, "table.include.list": ",".join(tables)}
        settings = [f"{name}={value}" for name, value in {**_SETTINGS, **own}.items()]
        command = [java, "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(_PROGRAM), *settings]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.events: list[Event] = []
        self._arrived = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            topic, key, value, headers = line.rstrip("\n").split("\t")
            if topic == "ended":
                continue
            event = Event(topic, _decoded(key), _decoded(value), msgspec.json.decode(headers))
            with self._arrived:
                self.events.append(event)
                self._arrived.notify_all()

    def wait_for(self, count: int, seconds: float = 60.0) -> list[Event]:
        """Return the events once there are that many."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.events) >= count, seconds), self.events
            return list(self.events)

    def close(self) -> None:
        """End Debezium; its slot stays until the database is dropped."""
        self._process.kill()
        self._thread.join()
        self._process.communicate()


def _decoded(text: str) -> Any:
    return None if text == "null" else msgspec.json.decode(text)
