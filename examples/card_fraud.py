"""Card fraud: a processor that remembers each card for an hour, and a timer that deletes inactive cards.

python -m examples.card_fraud            runs it on generated payments
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from examples.harness import Input, run_example
from millstream import App, Processor, Record, key_value_store, punctuate

MIN_TRAVEL_MS = 600_000
"""No one can pay in two countries within ten minutes."""
PROBE_PAYMENTS = 3
"""A large payment after this many tiny ones suggests that a stolen card was being tested."""
FORGET_MS = 3_600_000


class Payment(msgspec.Struct):
    """A payment; the key is the card."""

    cents: int
    country: str


class Card(msgspec.Struct):
    """The state kept for a card."""

    country: str
    at: int
    tiny: int = 0


class Watch(Processor):
    """Compares each payment with the previous payments of the same card."""

    stores = {"cards": key_value_store(value=Card)}  # noqa: RUF012

    def process(self, record: Record) -> None:
        """Forward an alarm if the payment is suspicious."""
        cards, payment = self.context.store("cards"), record.value
        card = cards.get(record.key)
        if card is not None and record.timestamp - card.at < MIN_TRAVEL_MS and card.country != payment.country:
            self.context.forward(record, value=f"{card.country} and {payment.country} within ten minutes")
        tiny = 0 if card is None else card.tiny
        if payment.cents >= 50_000 and tiny >= PROBE_PAYMENTS:
            self.context.forward(record, value=f"{payment.cents / 100:.0f} after {tiny} tiny payments")
        cards.put(record.key, Card(payment.country, record.timestamp, tiny + 1 if payment.cents < 200 else 0))

    @punctuate(every="10 min", on="stream")
    def forget(self, now: int) -> None:
        """Delete cards that were not used for an hour, which keeps the store small."""
        cards = self.context.store("cards")
        for card_id, card in cards.items():
            if now - card.at >= FORGET_MS:
                cards.delete(card_id)


app = App("card-fraud")
app.stream("payments", key=str, value=Payment).process(Watch, name="watch").to("alarms", value=str)


def data(seed: int = 7, payments: int = 3_000) -> Iterator[Input]:
    """Yield payments of legitimate cards and of a few stolen ones."""
    rng = random.Random(seed)
    home = {f"card-{number:03}": rng.choice(("NO", "IT", "PE")) for number in range(200)}
    clock = 0
    for number in range(payments):
        clock += rng.randrange(1_000, 9_000)
        card = rng.choice(list(home))
        if number % 500 == 250:
            for cents in (101, 120, 99, 75_000):
                yield Input("payments", card, Payment(cents, home[card]), clock)
        elif number % 500 == 400:
            yield Input("payments", card, Payment(2_500, home[card]), clock)
            yield Input("payments", card, Payment(9_900, "XX"), clock + 60_000)
        else:
            yield Input("payments", card, Payment(rng.randrange(300, 20_000), home[card]), clock)


def show(app: App) -> None:
    """Print the alarms and the number of cards in the store."""
    with app.consumer(topics=["alarms"], key=str, value=str) as consumer:
        print("\nalarms")
        for record in consumer.poll("1 s"):
            print(f"  minute {record.timestamp // 60_000:>4}  {record.key}  {record.value}")
    print(f"\n{len(app.tables['watch.cards'])} of 200 cards are in the store; the others were inactive for an hour")


if __name__ == "__main__":
    run_example(app, data(), show)
