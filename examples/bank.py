"""Bank: transfers and their cancellations are facts, balances are a table, and money is never made or lost.

python -m examples.bank                  runs it while its workers are being killed
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from examples.playing import Sent, feed
from millstream import App


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
    """Yield transfers between a hundred accounts; one in ten is cancelled a little later."""
    pick = random.Random(seed)
    accounts = [f"account-{number:02}" for number in range(100)]
    made: list[str] = []
    for number in range(transfers):
        payer, payee = pick.sample(accounts, 2)
        made.append(f"t{number}")
        yield Sent("facts", made[-1], Fact(payer, payee, pick.randrange(1, 100_000)), number * 10)
        if pick.random() < 0.1:
            yield Sent("facts", made.pop(pick.randrange(len(made))), Fact(), number * 10 + 5)


def workers() -> list[int]:
    """Return the Python workers that Spark has started for this process."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            of_daemon = b"pyspark.daemon" in (Path("/proc") / str(parent) / "cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            continue  # it has just ended
        if b"pyspark.daemon" in command and of_daemon:
            found.append(int(process.name))
    return found


def kill_workers(stop: threading.Event, killed: list[int]) -> None:
    """Kill three workers, one every few seconds, without a warning."""
    pick = random.Random(7)
    while len(killed) < 3 and not stop.wait(pick.uniform(2.0, 4.0)):
        for worker in workers()[:1]:
            os.kill(worker, signal.SIGKILL)
            killed.append(worker)


def show(app: App) -> None:
    """Print the richest, the poorest, and what all balances come to."""
    rows = sorted(app.tables["balances"].items(), key=lambda row: row[1])
    for account, cents in (*rows[:2], *rows[-2:]):
        print(f"  {account}  {cents / 100:>12,.2f}")
    print(f"  sum of {len(rows)} balances: {sum(cents for _, cents in rows)}")


def main() -> None:
    """Run to the end of the facts while workers die, then add up."""
    with tempfile.TemporaryDirectory(prefix="millstream-example-") as place:
        app.data_dir = Path(place)
        print(f"bank: {feed(app, data()):,} facts are in the log; processing them on Spark …")
        stop, killed = threading.Event(), list[int]()
        killer = threading.Thread(target=kill_workers, args=(stop, killed), daemon=True)
        killer.start()
        app.run("caught-up")
        stop.set()
        killer.join()
        print(f"\n{len(killed)} workers were killed meanwhile")
        show(app)


if __name__ == "__main__":
    main()
