import os
from collections import Counter
from pathlib import Path

import pytest
from examples.bank import CrashTest, Fact, app, data, workers
from examples.harness import Input, feed

from millstream import Config
from millstream.testing import TestDriver


def test_cancelling_a_transfer_restores_the_balances() -> None:
    with TestDriver(app) as driver:
        driver.topic("facts").pipe(Fact("ann", "bob", 500), key="t1")
        driver.topic("facts").pipe(Fact("bob", "cleo", 200), key="t2")
        assert dict(driver.table("balances").items()) == {"ann": -500, "bob": 300, "cleo": 200}
        driver.topic("facts").pipe(Fact(), key="t1")
        assert {key: cents for key, cents in driver.table("balances").items() if cents} == {"bob": -200, "cleo": 200}


def test_the_sum_of_balances_is_always_zero() -> None:
    with TestDriver(app) as driver:
        for record in data(transfers=60):
            driver.topic("facts").pipe(record.value, key=record.key, timestamp=record.timestamp)
            assert sum(cents for _, cents in driver.table("balances").items()) == 0


@pytest.mark.spark
@pytest.mark.crash
def test_the_sum_is_zero_after_every_batch_while_workers_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "data_dir", tmp_path)
    monkeypatch.setattr(app, "config", Config(max_batch_records=600, small_batch_records=0))
    facts = list(data(transfers=3_000))
    feed(app, facts)
    crash_test = CrashTest(app, kills=2)
    crash_test.run()
    assert len(crash_test.killed) == 2
    assert len(crash_test.sums) >= 5
    assert set(crash_test.sums) == {0}
    assert {key: cents for key, cents in app.tables["balances"].items() if cents} == expected_balances(facts)


def expected_balances(facts: list[Input]) -> dict[str, int]:
    transfers: dict[str, Fact] = {}
    for record in facts:
        if record.value.is_cancellation:
            del transfers[record.key]
        else:
            transfers[record.key] = record.value
    balances: Counter[str] = Counter()
    for fact in transfers.values():
        balances[fact.payer] -= fact.cents
        balances[fact.payee] += fact.cents
    return {account: cents for account, cents in balances.items() if cents}


@pytest.mark.spark
def test_only_workers_of_this_process_can_be_killed() -> None:
    app.spark.sparkContext.parallelize([1], 1).map(lambda _: os.getpid()).collect()  # starts a worker
    assert workers()
    for worker in workers():
        assert os.getpid() in ancestors(worker)


def ancestors(pid: int) -> list[int]:
    pids: list[int] = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        pids.append(pid)
    return pids
