import os
from collections import Counter
from pathlib import Path

import pytest
from examples.bank import Fact, Ordeal, app, data, workers
from examples.playing import Sent, feed

from millstream import Config
from millstream.testing import TestDriver


def test_a_transfer_moves_money_and_its_cancellation_moves_it_back() -> None:
    with TestDriver(app) as driver:
        driver.topic("facts").pipe(Fact("ann", "bob", 500), key="t1")
        driver.topic("facts").pipe(Fact("bob", "cleo", 200), key="t2")
        assert dict(driver.table("balances").items()) == {"ann": -500, "bob": 300, "cleo": 200}
        driver.topic("facts").pipe(Fact(), key="t1")
        assert {key: cents for key, cents in driver.table("balances").items() if cents} == {"bob": -200, "cleo": 200}


def test_money_is_never_made_or_lost() -> None:
    with TestDriver(app) as driver:
        for sent in data(transfers=60):
            driver.topic("facts").pipe(sent.value, key=sent.key, timestamp=sent.timestamp)
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
    ordeal = Ordeal(app, kills=2)
    ordeal.run()
    assert len(ordeal.killed) == 2
    assert len(ordeal.sums) >= 5
    assert set(ordeal.sums) == {0}
    assert {key: cents for key, cents in app.tables["balances"].items() if cents} == by_hand(facts)


def by_hand(facts: list[Sent]) -> dict[str, int]:
    standing: dict[str, Fact] = {}
    for sent in facts:
        if sent.value.is_cancellation:
            del standing[sent.key]
        else:
            standing[sent.key] = sent.value
    balances: Counter[str] = Counter()
    for fact in standing.values():
        balances[fact.payer] -= fact.cents
        balances[fact.payee] += fact.cents
    return {account: cents for account, cents in balances.items() if cents}


@pytest.mark.spark
def test_only_workers_of_this_process_are_ever_killed() -> None:
    app.spark.sparkContext.parallelize([1], 1).map(lambda _: os.getpid()).collect()  # a worker is there from now on
    assert workers()
    for worker in workers():
        assert os.getpid() in ancestors(worker)


def ancestors(pid: int) -> list[int]:
    found: list[int] = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found
