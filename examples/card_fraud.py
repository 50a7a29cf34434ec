"""Card fraud: a processor that remembers each card for a while, and forgets it by a timer.

python -m examples.card_fraud            runs it on made-up payments
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from examples.playing import Sent, play
from millstream import App, Processor, Record, key_value_store, punctuate

FAR_APART_MS = 600_000
"""Nobody is in two countries within ten minutes."""
PROBING = 3
"""So many tiny payments in a row are somebody trying out a stolen card, if a large one follows."""
FORGET_MS = 3_600_000


class Payment(msgspec.Struct):
    """A payment; the key is the card."""

    cents: int
    country: str


class Card(msgspec.Struct):
    """What is remembered of a card."""

    country: str
    at: int
    tiny: int = 0


class Watch(Processor):
    """Looks at each payment of a card next to the ones before."""

    stores = {"cards": key_value_store(value=Card)}  # noqa: RUF012

    def process(self, record: Record) -> None:
        """Forward an alarm if the payment does not fit to what is known."""
        cards, payment = self.context.store("cards"), record.value
        known = cards.get(record.key)
        if known is not None and record.timestamp - known.at < FAR_APART_MS and known.country != payment.country:
            self.context.forward(record, value=f"{known.country} and {payment.country} within ten minutes")
        tiny = 0 if known is None else known.tiny
        if payment.cents >= 50_000 and tiny >= PROBING:
            self.context.forward(record, value=f"{payment.cents / 100:.0f} after {tiny} tiny payments")
        cards.put(record.key, Card(payment.country, record.timestamp, tiny + 1 if payment.cents < 200 else 0))

    @punctuate(every="10 min", on="stream")
    def forget(self, now: int) -> None:
        """Let go of cards that were not used for an hour, so that the store stays as small as the town."""
        cards = self.context.store("cards")
        for card, known in cards.items():
            if now - known.at >= FORGET_MS:
                cards.delete(card)


app = App("card-fraud")
app.stream("payments", key=str, value=Payment).process(Watch, name="watch").to("alarms", value=str)


def data(seed: int = 7, payments: int = 3_000) -> Iterator[Sent]:
    """Yield payments of honest cards and of a few stolen ones."""
    pick = random.Random(seed)
    home = {f"card-{number:03}": pick.choice(("NO", "IT", "PE")) for number in range(200)}
    clock = 0
    for number in range(payments):
        clock += pick.randrange(1_000, 9_000)
        card = pick.choice(list(home))
        if number % 500 == 250:
            for cents in (101, 120, 99, 75_000):
                yield Sent("payments", card, Payment(cents, home[card]), clock)
        elif number % 500 == 400:
            yield Sent("payments", card, Payment(2_500, home[card]), clock)
            yield Sent("payments", card, Payment(9_900, "XX"), clock + 60_000)
        else:
            yield Sent("payments", card, Payment(pick.randrange(300, 20_000), home[card]), clock)


def show(app: App) -> None:
    """Print the alarms, and how many cards are remembered."""
    with app.consumer(topics=["alarms"], key=str, value=str) as consumer:
        print("\nalarms")
        for record in consumer.poll("1 s"):
            print(f"  minute {record.timestamp // 60_000:>4}  {record.key}  {record.value}")
    print(f"\n{len(app.tables['watch.cards'])} of 200 cards are remembered; the others were quiet for an hour")


if __name__ == "__main__":
    play(app, data(), show)
