"""The Spark session: it listens on loopback only, and its settings."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import py4j.java_gateway
import pytest
from pyspark import SparkContext, java_gateway
from tests.spark.rpc import requires_authentication

from millstream import Config
from millstream.broker import TopicConfig
from millstream.errors import DefinitionError
from millstream.log import EmbeddedLog
from millstream.spark import session
from millstream.spark.run import stop_spark
from millstream.spark.session import spark_context, spark_session

pytestmark = pytest.mark.spark

LISTENING = "0A"


def test_everything_listens_on_loopback_only() -> None:
    context = spark_context(Config())
    java = context._gateway.proc.pid  # type: ignore[union-attr]
    inodes = {inode for pid in (os.getpid(), java, *children(java)) for inode in sockets(pid)}
    addresses = {address for address, inode in listeners() if inode in inodes}
    assert addresses, "Spark has open ports, so the test must find some"
    assert all(is_loopback(address) for address in addresses), addresses


def children(pid: int) -> list[int]:
    direct = [int(text) for path in Path(f"/proc/{pid}/task").glob("*/children") for text in path.read_text().split()]
    return direct + [descendant for child in direct for descendant in children(child)]


def sockets(pid: int) -> Iterator[str]:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(link.readlink())
        except FileNotFoundError:  # closed since
            continue
        if target.startswith("socket:["):
            yield target[8:-1]


def listeners() -> Iterator[tuple[str, str]]:
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING:
                yield fields[1].split(":")[0], fields[9]


def is_loopback(address: str) -> bool:
    """IPv4 is one little-endian word; in IPv6, ::1 or a mapped 127.x."""
    if len(address) == 8:
        return address.endswith("7F")
    return address == "00000000000000000000000001000000" or (
        address.startswith("0000000000000000FFFF0000") and address.endswith("7F")
    )


def test_a_session_that_another_thread_has_created_is_active_in_this_thread_too(tmp_path: Path) -> None:
    """Otherwise writers would look up the data source in a session that was stopped."""
    spark_session(Config())
    stop_spark()
    other = threading.Thread(target=spark_session, args=(Config(),))
    other.start()
    other.join()
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("out", TopicConfig(partitions=1))
        rows = spark_session(Config()).sql("SELECT 'k' AS _key, 1 AS n")
        rows.write.format("millstream").options(data_dir=str(tmp_path), topic="out").mode("append").save()
        assert log.offsets("out")[0].end == 1


def test_the_web_ui_of_spark_is_off_and_workers_run_this_python() -> None:
    conf = dict(spark_context(Config()).getConf().getAll())
    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.python.unix.domain.socket.enabled"] == "true"
    assert Path(conf["spark.pyspark.python"]).exists()


def test_the_rpc_port_deserializes_nothing_without_authentication() -> None:
    context = spark_context(Config())
    port = int(context.getConf().get("spark.driver.port") or 0)
    assert requires_authentication("127.0.0.1", port)
    assert context.parallelize(range(10), 2).map(lambda number: number + 1).sum() == 55  # workers are not affected


def test_a_start_that_is_interrupted_prints_no_stack_trace(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gateway: Any = py4j.java_gateway
    monkeypatch.setattr(gateway, "logging", logging)  # as before the first start in a process

    def interrupt(*_: object, **__: object) -> None:
        gateway.logging.error("KeyboardInterrupt while sending command.")  # as its client does
        raise KeyboardInterrupt

    monkeypatch.setattr(SparkContext, "_ensure_initialized", interrupt)
    with pytest.raises(KeyboardInterrupt):
        session._prepare(Config())
    assert "root" not in {record.name for record in caplog.records}


@pytest.mark.crash
def test_a_jvm_whose_start_is_interrupted_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)
    gateway: Any = java_gateway
    before: Any = gateway.Popen
    processes: list[Any] = []

    def start_and_interrupt() -> None:
        with session.ending_interrupted_jvm():
            processes.append(gateway.Popen(["sleep", "600"]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start_and_interrupt()
    assert [process.returncode for process in processes] == [-signal.SIGKILL]
    assert gateway.Popen is before


def test_a_running_spark_is_returned_without_reading_its_settings_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each delivery asks for it: reading settings resolves the name of the master and reads secrets."""
    context = spark_context(Config())
    monkeypatch.setattr("millstream.spark.session.session_settings", lambda *_: pytest.fail("settings were read"))
    assert spark_context(Config()) is context


def test_an_app_for_another_cluster_is_refused_instead_of_running_on_the_first() -> None:
    context = spark_context(Config())
    assert spark_context(Config(master="local[7]")) is context
    with pytest.raises(DefinitionError, match=r"'spark://other:7077', but Spark already runs on 'local\["):
        spark_context(Config(master="spark://other:7077"))
