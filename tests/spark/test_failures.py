"""Errors as users see them: one sentence, and nothing is half done."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from tests.spark.apps import picky, words
from tests.spark.conftest import Feed, Read

from millstream import Config
from millstream.errors import (
    AlreadyRunningError,
    DefinitionError,
    EngineStoppedError,
    ProcessingError,
    StateError,
    UnknownTopicError,
)
from millstream.foundation.blocks import headers_of
from millstream.foundation.file_lock import FileLock
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.spark.failures import explained, translated

pytestmark = pytest.mark.spark


def test_a_raising_function_stops_the_app_and_names_node_and_record(tmp_path: Path, feed: Feed, read: Read) -> None:
    picky.data_dir, picky.config = tmp_path, Config(partitions=1)
    feed(picky, "numbers", [b"5", b"0"], partitions=1)

    with pytest.raises(ProcessingError) as caught:
        picky.run("caught-up")

    assert "node 'divide' failed on record numbers[0]@1 (key None): ZeroDivisionError" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.facts["offset"] == 1
    assert "apps.py" in "".join(traceback.format_exception(caught.value)), "the stack must show the line of user code"
    assert read(picky, "quotients") == []


def test_after_a_failure_the_same_batch_runs_again(tmp_path: Path, feed: Feed, read: Read) -> None:
    picky.data_dir, picky.config = tmp_path, Config(partitions=1)
    feed(picky, "numbers", [b"5", b"0"], partitions=1)
    with pytest.raises(ProcessingError):
        picky.run("caught-up")

    picky.config = Config(partitions=1, on_error="skip")
    picky.run("caught-up")

    assert read(picky, "quotients") == [(None, b"20")]


def test_malformed_records_become_dead_letters(tmp_path: Path, feed: Feed, read: Read) -> None:
    picky.data_dir, picky.config = tmp_path, Config(partitions=1)
    feed(picky, "numbers", [b"5", b"{oops", b"10"], partitions=1)

    picky.run("caught-up")

    assert read(picky, "quotients") == [(None, b"20"), (None, b"10")]
    with EmbeddedLog(tmp_path) as log:
        (chunk,) = log.read("picky.dead-letters", 0, 0, 1)
    assert chunk.block.column(1).to_pylist() == [b"{oops"]
    headers = dict((headers_of(chunk.block) or [()])[0])
    assert headers["__streams.errors.topic"] == b"numbers"
    assert headers["__streams.errors.offset"] == b"1"


def test_a_second_run_on_the_same_state_is_rejected(tmp_path: Path) -> None:
    words.data_dir = tmp_path
    lock = FileLock(tmp_path / "apps" / "words" / "lock")
    assert lock.acquire()

    with pytest.raises(AlreadyRunningError, match="app 'words' is already running"):
        words.start()

    lock.release()


def test_a_missing_topic_is_named_when_topics_are_not_created(tmp_path: Path) -> None:
    picky.data_dir, picky.config = tmp_path, Config(create_topics=False)

    with pytest.raises(UnknownTopicError, match="numbers"):
        picky.run("caught-up")


def test_deleted_state_is_rejected_rather_than_taken_as_empty(tmp_path: Path, feed: Feed) -> None:
    words.data_dir = tmp_path
    feed(words, "lines", [b"a"])
    words.run("caught-up")
    close_environments(tmp_path)
    for path in (tmp_path / "apps" / "words" / "state").rglob("*.mdb"):
        path.unlink()
    feed(words, "lines", [b"b"])

    with pytest.raises(StateError, match="the last committed batch is 1"):
        words.run("caught-up")


def test_an_invalid_topology_is_rejected_before_spark_starts(tmp_path: Path) -> None:
    words.data_dir = tmp_path
    with pytest.raises(DefinitionError, match=r"filter\(\) cannot call"):
        words.stream("lines", value=str).filter(lambda a, b, c, d: True)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("ModuleNotFoundError: No module named 'lmdb'\n  at x", "'lmdb'"),
        ('java.io.IOException: Cannot run program "/opt/venv/bin/python": error=2', "'/opt/venv/bin/python'"),
    ],
)
def test_executors_without_millstream_or_python_are_one_clear_sentence(text: str, missing: str) -> None:
    error = explained(Exception(text))
    assert f"the executors cannot run Millstream: they have no {missing}" in str(error)
    assert "spark.pyspark.python" in str(error)


class RunningSpark:
    """A context whose JVM is connected."""

    _jsc = object()


class StoppedSpark:
    """A context that another thread is stopping."""

    _jsc = None


@pytest.mark.parametrize("context", [None, StoppedSpark()])
def test_what_fails_because_spark_was_stopped_is_an_error_of_the_engine(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    with pytest.raises(EngineStoppedError, match="Spark was stopped while a batch ran"), translated():
        context._jsc.sc()


def test_other_unexpected_errors_are_not_taken_for_a_stopped_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", RunningSpark())
    with pytest.raises(ZeroDivisionError), translated():
        _ = 1 // 0
