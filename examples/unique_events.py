"""Let each event through once: a processor that remembers ids for an hour, and tells every minute what it left out.

python -m examples.unique_events         runs it on made-up doors

millstream run examples/unique_events.py
echo '{"id": "7", "what": "opened"}' | millstream produce events --key door-1
millstream consume events.unique --from-beginning
millstream tables scan dedupe.seen --app unique-events
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from examples.playing import Sent, play
from millstream import App, Processor, Record, key_value_store, punctuate, window_store

HOUR = 3_600_000


class Event(msgspec.Struct):
    id: str
    what: str


class Dedupe(Processor):
    """Events of a key with an id that was seen within the last hour are left out."""

    stores = {"seen": window_store(retention="1 h"), "left_out": key_value_store(value=int)}  # noqa: RUF012

    def process(self, record: Record) -> None:
        seen, device, event = self.context.store("seen"), record.key, record.value
        if any(known == event.id for _, known in seen.between(device, since=record.timestamp - HOUR)):
            left_out = self.context.store("left_out")
            left_out.put(device, left_out.get(device, 0) + 1)
        else:
            seen.put(device, event.id, at=record.timestamp)
            self.context.forward(record, to="unique")

    @punctuate(every="1 min", on="wall")
    def tell(self, now: int) -> None:
        left_out = self.context.store("left_out")
        for device, count in left_out.items():
            self.context.forward(key=device, value=count, timestamp=now, to="repeated")
            left_out.delete(device)


app = App("unique-events")
events = app.stream("events", key=str, value=Event).process(Dedupe, key=str, name="dedupe")
events.to("events.unique", value=Event, name="unique")
events.to("events.repeated", value=int, name="repeated")


def data(seed: int = 7, events: int = 400) -> Iterator[Sent]:
    """Yield what doors tell; one in three tells it again within the next minutes."""
    pick = random.Random(seed)
    for number in range(events):
        clock, door = number * 30_000, f"door-{pick.randrange(5)}"
        event = Event(str(number), pick.choice(("opened", "closed")))
        yield Sent("events", door, event, clock)
        if pick.random() < 0.33:
            yield Sent("events", door, event, clock + pick.randrange(20_000))


def show(app: App) -> None:
    """Print how many events there were, and how many of them were new."""
    broker = app.broker
    came, passed = (sum(each.end for each in broker.offsets(topic)) for topic in ("events", "events.unique"))
    broker.close()
    print(f"\n{came} events came, {passed} passed; still to be told every minute as left out:")
    for door, count in sorted(app.tables["dedupe.left_out"].items()):
        print(f"  {door}  {count}")


if __name__ == "__main__":
    play(app, data(), show)
