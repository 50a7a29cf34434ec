"""Bank: transfers and their cancellations are facts, balances are a table, and money is never made or lost.

python -m examples.bank                  runs it while its workers are being killed
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue

import msgspec

from examples.playing import Sent, feed, playground, where
from millstream import App, Config
from millstream.batch.report import BatchReport

IN_STEPS = Config(max_batch_records=2_000, small_batch_records=0)
"""Many batches, so that there is something to interrupt."""


class Fact(msgspec.Struct):
    """Something that happened to a transfer, which is the key: it was made or, without accounts, cancelled."""

    payer: str = ""
    payee: str = ""
    cents: int = 0

    @property
    def is_cancellation(self) -> bool:
        return not self.payer


def standing(_before: Fact, fact: Fact) -> Fact | None:
    """Return the transfer as it stands; a cancelled one stands no more."""
    return None if fact.is_cancellation else fact


app = App("bank")
facts = app.stream("facts", key=str, value=Fact)

transfers = facts.group_by_key().aggregate(Fact, standing, value=Fact, name="transfers")
paid = transfers.group_by(lambda transfer: transfer.payer, values=lambda transfer: transfer.cents)
received = transfers.group_by(lambda transfer: transfer.payee, values=lambda transfer: transfer.cents)
balances = received.sum(name="received").outer_join(
    paid.sum(name="paid"), lambda plus, minus: (plus or 0) - (minus or 0), value=int, name="balances"
)


def data(seed: int = 7, transfers: int = 20_000) -> Iterator[Sent]:
    """Yield transfers between a hundred accounts; one in ten is cancelled later, one in twenty told late."""
    pick = random.Random(seed)
    accounts = [f"account-{number:02}" for number in range(100)]
    made: list[str] = []
    for number in range(transfers):
        payer, payee = pick.sample(accounts, 2)
        made.append(f"t{number}")
        clock = number * 10 + (0 if pick.random() < 0.05 else 5_000)
        yield Sent("facts", made[-1], Fact(payer, payee, pick.randrange(1, 100_000)), clock)
        if pick.random() < 0.1:
            yield Sent("facts", made.pop(pick.randrange(len(made))), Fact(), clock + 5)


def total(app: App) -> int:
    """Return what all balances come to: zero, whenever one looks between two batches."""
    return sum(cents for _, cents in app.tables["balances"].items())


def workers() -> list[int]:
    """Return the Python workers of the Spark that this process has started, and of no other one."""
    listed = subprocess.run(["ps", "-axo", "pid=,ppid=,args="], capture_output=True, text=True, check=True)  # noqa: S607
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    parents = {int(row[0]): int(row[1]) for row in rows}
    daemons = {int(row[0]) for row in rows if len(row) == 3 and "pyspark.daemon" in row[2]}
    return sorted(pid for pid in daemons if parents[pid] in daemons and os.getpid() in _ancestors(pid, parents))


def _ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while (pid := parents.get(pid, 0)) > 1:
        yield pid


class Ordeal:
    """Adds up all balances after each batch, and has a worker killed while the next one runs, some times."""

    def __init__(self, app: App, kills: int) -> None:
        self.sums: list[int] = []
        self.killed: list[int] = []
        self._app, self._kills = app, kills
        self._done: SimpleQueue[int | None] = SimpleQueue()

    def run(self) -> None:
        """Run the app until all facts are processed."""
        killer = threading.Thread(target=self._kill_now_and_then)
        killer.start()
        try:
            self._app.run("caught-up", on_batch=self._look)
        finally:
            self._done.put(None)
            killer.join()

    def _look(self, report: BatchReport) -> None:
        self.sums.append(total(self._app))
        print(
            f"  batch {report.plan.number:>2}: {len(self.killed)} workers killed so far, all balances: {self.sums[-1]}"
        )
        self._done.put(report.plan.number)

    def _kill_now_and_then(self) -> None:
        pick = random.Random(7)
        while (batch := self._done.get()) is not None:
            if batch % 2 == 0 and len(self.killed) < self._kills:  # the same batch failing again and again is given up
                time.sleep(pick.uniform(0.0, 0.2))
                for worker in workers()[:1]:
                    os.kill(worker, signal.SIGKILL)
                    self.killed.append(worker)


def show(app: App) -> None:
    """Print the richest, the poorest, and what all balances come to."""
    rows = sorted(app.tables["balances"].items(), key=lambda row: row[1])
    for account, cents in (*rows[:2], *rows[-2:]):
        print(f"  {account}  {cents / 100:>12,.2f}")
    print(f"  sum of {len(rows)} balances: {total(app)}")


def main() -> None:
    """Run to the end of the facts while workers die, and add up after every batch."""
    with playground(app):
        print(f"bank: {feed(app, data()):,} facts are in {where(app)}; processing them on Spark while workers die …")
        app.config = IN_STEPS
        ordeal = Ordeal(app, kills=3)
        ordeal.run()
        print(f"\n{len(ordeal.killed)} workers were killed meanwhile; the balances came to {set(ordeal.sums)}")
        show(app)


if __name__ == "__main__":
    main()
