"""A process that is killed, the lines that it is fed with, and the laws that what it wrote must obey."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from millstream import Windowed
from millstream.blocks import block_of
from millstream.broker import Broker, Output
from millstream.tables import open_tables

ROOT = Path(__file__).parents[2]
WORDS = [f"w{number}" for number in range(40)]


class Victim:
    """A victim that has recovered; it is killed in the end, whatever it does."""

    def __init__(self, directory: Path, broker: str | None = None) -> None:
        environment = {**os.environ, "MILLSTREAM_CRASH_DIR": str(directory), "MILLSTREAM_BROKER": broker or ""}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.victim"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> subprocess.Popen[str]:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "recovered\n"
        return self.process

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def feed(log: Broker, chance: random.Random, victim: subprocess.Popen[str]) -> list[str]:
    """Let the victim run on new lines and kill it at a random moment."""
    assert victim.stdin is not None
    victim.stdin.write("go\n")
    victim.stdin.flush()
    killer = threading.Timer(chance.uniform(0.0, 3.0), victim.kill)
    killer.start()
    sent: list[str] = []
    while killer.is_alive():
        part = [" ".join(chance.choices(WORDS, k=3)) for _ in range(chance.randrange(1, 200))]
        raw: list[bytes | None] = [line.encode() for line in part]
        log.append([Output("lines", chance.randrange(2), block_of([None] * len(raw), raw, [len(sent)] * len(raw)))])
        sent += part
        killer.join(chance.uniform(0.0, 0.2))
    return sent


def check(directory: Path, log: Broker, lines: list[str]) -> None:
    """Compare everything that was written with a plain count of the lines."""
    words = Counter(word for line in lines for word in line.split())
    assert _final(log, "word-counts", directory, "words", "words") == words
    reached = Counter(str(count) for total in words.values() for count in range(1, total + 1))
    assert _final(log, "reached-counts", directory, "levels", "reached") == reached
    assert sum(_final(log, "group-counts", directory, "chance", "groups").values()) == len(lines)
    assert sum(_final(log, "length-counts", directory, "windows", "lengths").values()) == len(lines)


def _final(log: Broker, topic: str, directory: Path, app: str, table: str) -> dict[str, int]:
    """Return the last count of each key, after checking that none is missing, doubled or out of order."""
    seen: dict[str, list[int]] = defaultdict(list)
    for key, value in _records(log, topic):
        seen[key].append(value)
    for key, values in seen.items():
        assert values == list(range(1, len(values) + 1)), f"updates of {key!r} in {topic!r} have a gap or a repeat"
    final = {key: values[-1] for key, values in seen.items()}
    assert {_text(key): value for key, value in open_tables(directory, app)[table].items()} == final
    return final


def _text(key: Any) -> str:
    return f"{key.key}/{key.start}" if isinstance(key, Windowed) else str(key)


def _records(log: Broker, topic: str) -> Iterator[tuple[str, Any]]:
    for partition, offsets in enumerate(log.offsets(topic)):
        for chunk in log.read(topic, partition, offsets.begin, offsets.end):
            columns = zip(chunk.block.column(0).to_pylist(), chunk.block.column(1).to_pylist(), strict=True)
            yield from ((key.decode(), int(value)) for key, value in columns)
