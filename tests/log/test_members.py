"""A group of real processes; one of them is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from millstream.broker import GroupMember, TopicConfig
from millstream.log import EmbeddedLog
from millstream.producer import Producer

_READER = """
import json, sys
from pathlib import Path
from millstream.consumer import Consumer
from millstream.log import EmbeddedLog
with EmbeddedLog(Path(sys.argv[1])) as log:
    consumer = Consumer(log, "group", topics="lines", value=int, commit_every="50 ms")
    for record in consumer:
        print(json.dumps([record.partition, record.offset, record.value]), flush=True)
"""


@pytest.mark.crash
def test_the_others_take_over_from_a_killed_member(log: EmbeddedLog, tmp_path: Path) -> None:
    log.create_topic("lines", TopicConfig(partitions=4))
    out = [tmp_path / f"{number}.jsonl" for number in range(3)]
    readers = [_start(tmp_path, path) for path in out]
    try:
        _until(lambda: sorted(len(m.partitions) for m in _members(log)) == [1, 1, 2])
        _send(log, range(200))
        _until(lambda: len(_seen(out)) == 200)
        readers[1].send_signal(signal.SIGKILL)
        readers[1].wait()
        died = monotonic()
        _send(log, range(200, 400))
        _until(lambda: len(_seen(out)) == 400)
        print(f"taken over after {monotonic() - died:.2f} s")
        assert monotonic() - died < 5, "a takeover must not wait for the session timeout"
        assert sorted(len(member.partitions) for member in _members(log)) == [2, 2]
        _until(lambda: sum(log.committed("group").values()) == 400)
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()
    for reader_out in out:
        rows = _rows([reader_out])
        for partition in range(4):
            offsets = [row[1] for row in rows if row[0] == partition]
            assert offsets == sorted(set(offsets)), "order holds within a partition"


def _start(directory: Path, out: Path) -> subprocess.Popen[bytes]:
    with out.open("wb") as file:
        return subprocess.Popen([sys.executable, "-c", _READER, str(directory)], stdout=file)


def _send(log: EmbeddedLog, numbers: range) -> None:
    with Producer(log) as producer:
        for number in numbers:
            producer.send("lines", number, key=f"k{number}")


def _members(log: EmbeddedLog) -> tuple[GroupMember, ...]:
    return log.group("group").members if "group" in log.group_names() else ()


def _rows(paths: list[Path]) -> list[list[int]]:
    texts = (path.read_text() for path in paths)
    return [json.loads(line) for text in texts for line in text[: text.rfind("\n") + 1].splitlines()]


def _seen(paths: list[Path]) -> set[int]:
    return {row[2] for row in _rows(paths)}


def _until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = monotonic() + seconds
    while not condition():
        assert monotonic() < deadline, "waited too long"
        Event().wait(0.02)
