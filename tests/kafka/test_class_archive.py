"""Kafka starts with an archive of its classes, which is recorded once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from millstream.foundation.file_lock import FileLock
from millstream.testing.kafka import Cluster, java_command
from millstream.testing.kafka.artifacts import KAFKA_VERSION
from millstream.testing.kafka.class_archive import record_archive


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache with an empty directory for jars, and let a program of no effect be Java."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to("/bin/true")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = tmp_path / "millstream"
    (cache / f"kafka-{KAFKA_VERSION}").mkdir(parents=True)
    return cache


def option_of(command: list[str]) -> str | None:
    prefix = "-XX:SharedArchiveFile="
    return next((option.removeprefix(prefix) for option in command if option.startswith(prefix)), None)


def test_it_is_recorded_once_and_then_used_except_by_long_runs(cache: Path) -> None:
    assert option_of(java_command("kafka.Kafka")) is None
    options = []

    def run(option: str) -> None:
        options.append(option)
        Path(option.removeprefix("-XX:ArchiveClassesAtExit=")).write_text("classes")

    record_archive(run)
    record_archive(run)
    assert len(options) == 1
    (archive,) = cache.glob("*.jsa")
    assert archive.read_text() == "classes"
    assert option_of(java_command("kafka.Kafka")) == str(archive)
    assert option_of(java_command("kafka.Kafka", long_running=True)) is None


def test_java_that_records_nothing_is_not_asked_again(cache: Path) -> None:
    options: list[str] = []
    record_archive(options.append)
    record_archive(options.append)
    assert len(options) == 1


def test_a_broker_that_does_not_start_leaves_nothing_behind(cache: Path) -> None:
    def run(option: str) -> None:
        Path(option.removeprefix("-XX:ArchiveClassesAtExit=")).write_text("part")
        raise RuntimeError("it did not start")

    with pytest.raises(RuntimeError):
        record_archive(run)
    assert list(cache.glob("**/*.jsa")) == []


def test_while_one_process_records_it_others_do_not_wait(cache: Path) -> None:
    record_archive(lambda _: None)
    (archive,) = cache.glob("*.jsa")
    archive.unlink()
    lock = FileLock(archive.with_suffix(".lock"))
    assert lock.acquire()
    options: list[str] = []
    record_archive(options.append)
    assert options == []
    lock.release()


@pytest.mark.kafka
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists what a process has mapped")
def test_a_broker_has_mapped_it(cluster: Cluster) -> None:
    process = cluster.nodes[0].process
    assert process is not None
    assert isinstance(process.args, list)
    archive = option_of(process.args)
    if archive is None:
        pytest.skip("another process recorded the archive when the broker started")
    assert archive in Path(f"/proc/{process.pid}/maps").read_text()
