"""Bank: transfers and cancellations are facts, balances are a table, and no money is ever created or lost.

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

from examples.harness import Input, feed, location, temporary_data
from millstream import App, Config
from millstream.batch.report import BatchReport

SMALL_BATCHES = Config(max_batch_records=2_000, small_batch_records=0)
"""Many batches, so that workers can be killed between them."""


class Fact(msgspec.Struct):
    """A transfer was made or, if the accounts are empty, cancelled; the key is the id of the transfer."""

    payer: str = ""
    payee: str = ""
    cents: int = 0

    @property
    def is_cancellation(self) -> bool:
        return not self.payer


def current_transfer(_previous: Fact, fact: Fact) -> Fact | None:
    """Return the current state of a transfer; None, once it is cancelled."""
    return None if fact.is_cancellation else fact


app = App("bank")
facts = app.stream("facts", key=str, value=Fact)

transfers = facts.group_by_key().aggregate(Fact, current_transfer, value=Fact, name="transfers")
paid = transfers.group_by(lambda transfer: transfer.payer, values=lambda transfer: transfer.cents)
received = transfers.group_by(lambda transfer: transfer.payee, values=lambda transfer: transfer.cents)
balances = received.sum(name="received").outer_join(
    paid.sum(name="paid"), lambda plus, minus: (plus or 0) - (minus or 0), value=int, name="balances"
)


def data(seed: int = 7, transfers: int = 20_000) -> Iterator[Input]:
    """Yield transfers between a hundred accounts; one in ten is cancelled later, one in twenty arrives late."""
    rng = random.Random(seed)
    accounts = [f"account-{number:02}" for number in range(100)]
    open_transfers: list[str] = []
    for number in range(transfers):
        payer, payee = rng.sample(accounts, 2)
        open_transfers.append(f"t{number}")
        clock = number * 10 + (0 if rng.random() < 0.05 else 5_000)
        yield Input("facts", open_transfers[-1], Fact(payer, payee, rng.randrange(1, 100_000)), clock)
        if rng.random() < 0.1:
            yield Input("facts", open_transfers.pop(rng.randrange(len(open_transfers))), Fact(), clock + 5)


def total(app: App) -> int:
    """Return the sum of all balances: zero after every batch."""
    return sum(cents for _, cents in app.tables["balances"].items())


def workers() -> list[int]:
    """Return the process ids of the Python workers that belong to the Spark of this process."""
    command = ["ps", "-axww", "-o", "pid=,ppid=,args="]  # ww: not shortened to the width of a terminal
    listing = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in listing.stdout.splitlines()]
    parents = {int(row[0]): int(row[1]) for row in rows}
    daemons = {int(row[0]) for row in rows if len(row) == 3 and "pyspark.worker" in row[2]}
    return sorted(pid for pid in daemons if parents[pid] in daemons and os.getpid() in _ancestors(pid, parents))


def _ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while (pid := parents.get(pid, 0)) > 1:
        yield pid


class CrashTest:
    """Sum all balances after each batch, and kill a worker during some of the batches."""

    def __init__(self, app: App, kills: int) -> None:
        self.sums: list[int] = []
        self.killed: list[int] = []
        self._app, self._kills = app, kills
        self._finished_batches: SimpleQueue[int | None] = SimpleQueue()

    def run(self) -> None:
        """Run the app until all facts are processed."""
        killer = threading.Thread(target=self._kill_workers)
        killer.start()
        try:
            self._app.run("caught-up", on_batch=self._check_balances)
        finally:
            self._finished_batches.put(None)
            killer.join()

    def _check_balances(self, report: BatchReport) -> None:
        self.sums.append(total(self._app))
        batch = report.plan.number
        print(f"  batch {batch:>2}: {len(self.killed)} workers killed so far, sum of balances: {self.sums[-1]}")
        self._finished_batches.put(batch)

    def _kill_workers(self) -> None:
        rng = random.Random(7)
        while (batch := self._finished_batches.get()) is not None:
            if batch % 2 == 0 and len(self.killed) < self._kills:  # a batch that fails repeatedly stops the app
                time.sleep(rng.uniform(0.0, 0.2))
                for worker in workers()[:1]:
                    os.kill(worker, signal.SIGKILL)
                    self.killed.append(worker)


def show(app: App) -> None:
    """Print the lowest and highest balances, and the sum of all."""
    rows = sorted(app.tables["balances"].items(), key=lambda row: row[1])
    for account, cents in (*rows[:2], *rows[-2:]):
        print(f"  {account}  {cents / 100:>12,.2f}")
    print(f"  sum of {len(rows)} balances: {total(app)}")


def main() -> None:
    """Process all facts while workers are killed, and sum the balances after every batch."""
    with temporary_data(app):
        print(f"bank: wrote {feed(app, data()):,} facts to {location(app)}; running on Spark and killing workers …")
        app.config = SMALL_BATCHES
        crash_test = CrashTest(app, kills=3)
        crash_test.run()
        print(f"\n{len(crash_test.killed)} workers were killed; the sums of balances were {set(crash_test.sums)}")
        show(app)


if __name__ == "__main__":
    main()
