"""Records that cannot be decoded: each becomes one dead letter, and all others are processed."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from tests.cli.running import run_to_end
from tests.crash.trials import trial_seed

from millstream import App, Config
from millstream.broker import Output, TopicConfig
from millstream.errors import ProcessingError
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.tables.opening import open_tables
from millstream.task.policy import OnError
from millstream.views.dead_letters import read_dead_letters

RECORDS = 10_000
YEAR_2099 = 4_070_908_800_000


class Ride(msgspec.Struct):
    zone: int
    amount: float


POISON: list[bytes] = [
    b"{",
    b'{"zone": "one", "amount": 1}',
    b'{"zone": 1}',
    b"\xff\xfe\x00",
    b"[" * 10_000,
    b'{"zone": 1, "amount": NaN}',
    b"null ",
    b'{"zone": 99999999999999999999999, "amount": 1}',
]


def test_poison_records_become_dead_letters_and_all_others_are_counted(tmp_path: Path) -> None:
    rng = random.Random(trial_seed())
    values: list[bytes] = []
    for number in range(RECORDS):
        if rng.random() < 0.3:
            values.append(rng.choice(POISON) + b" " * (number % 7))
        else:
            values.append(json.dumps({"zone": number % 5, "amount": 1.5}).encode())
    values[77] = b"x" * (20 << 20)
    keys = [None if rng.random() < 0.1 else b"\xff%d" % number for number in range(RECORDS)]
    times = [rng.choice([0, YEAR_2099, number]) for number in range(RECORDS)]
    app = App("poisoned", data_dir=tmp_path, config=Config(partitions=2, on_error="dead_letter"))
    app.stream("rides", key=bytes, value=Ride).group_by(lambda ride: ride.zone).count(name="by_zone")
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("rides", TopicConfig(partitions=2, max_record_bytes=32 << 20))
        for start in range(0, RECORDS, 1000):
            rows = slice(start, start + 1000)
            log.append([Output("rides", start // 1000 % 2, block_of(keys[rows], values[rows], times[rows]))])

    run_to_end(app)

    bad = [value for value in values if not _is_ride(value)]
    good = [json.loads(value)["zone"] for value in values if _is_ride(value)]
    assert dict(open_tables(tmp_path, "poisoned")["by_zone"].items()) == Counter(good)
    with EmbeddedLog(tmp_path) as log:
        letters = Counter(letter.record.value for letter in read_dead_letters(log, "poisoned.dead-letters"))
    assert letters == Counter(bad)


def _is_ride(value: bytes) -> bool:
    try:
        msgspec.json.decode(value, type=Ride)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return False
    return True


@pytest.mark.parametrize("policy", ["dead_letter", "skip", "fail"])
def test_a_function_that_raises_on_one_key(tmp_path: Path, policy: OnError) -> None:
    app = App("raising", data_dir=tmp_path, config=Config(partitions=1, on_error=policy))
    divided = app.stream("numbers", value=int).map_values(lambda n: 100 // n, name="divide")
    divided.group_by(lambda n: n).count(name="all")
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("numbers", TopicConfig(partitions=1))
        log.append([Output("numbers", 0, block_of([None] * 4, [b"1", b"0", b"2", b"0"], [0] * 4))])
    if policy == "fail":
        for _ in range(2):
            with pytest.raises(ProcessingError, match=r"node 'divide' failed on record numbers\[0\]@1"):
                run_to_end(app)
        assert dict(open_tables(tmp_path, "raising")["all"].items()) == {}
        return
    run_to_end(app)
    assert dict(open_tables(tmp_path, "raising")["all"].items()) == {100: 1, 50: 1}
    with EmbeddedLog(tmp_path) as log:
        topics = log.topic_names()
        letters = list(read_dead_letters(log, "raising.dead-letters")) if "raising.dead-letters" in topics else []
    assert [letter.record.value for letter in letters] == ([b"0", b"0"] if policy == "dead_letter" else [])


def test_a_function_that_raises_on_the_first_attempt_only(tmp_path: Path) -> None:
    attempts: list[int] = []

    def flaky(n: int) -> int:
        attempts.append(n)
        if len(attempts) == 2:
            raise OSError("the network is gone")
        return n

    app = App("flaky", data_dir=tmp_path, config=Config(partitions=1))
    app.stream("numbers", value=int).map_values(flaky).group_by(lambda n: n % 2).count(name="all").to_stream().to("out")
    with EmbeddedLog(tmp_path) as log:
        for topic in ("numbers", "out"):
            log.create_topic(topic, TopicConfig(partitions=1))
        log.append([Output("numbers", 0, block_of([None] * 3, [b"1", b"2", b"3"], [0] * 3))])
    with pytest.raises(ProcessingError, match="OSError: the network is gone"):
        run_to_end(app)
    run_to_end(app)
    assert dict(open_tables(tmp_path, "flaky")["all"].items()) == {1: 2, 0: 1}
    assert attempts == [1, 2, 1, 2, 3]
