"""Unique events: a processor that drops repeated events and reports their number every minute.

python -m examples.unique_events         runs it on generated door events

millstream run examples/unique_events.py
echo '{"id": "7", "what": "opened"}' | millstream produce events --key door-1
millstream consume events.unique --from-beginning
millstream tables scan dedupe.seen --app unique-events
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from examples.harness import Input, run_example
from millstream import App, Processor, Record, key_value_store, punctuate, window_store

HOUR = 3_600_000


class Event(msgspec.Struct):
    id: str
    what: str


class Dedupe(Processor):
    """Drops events whose id was already seen for the same key within the last hour."""

    stores = {"seen": window_store(retention="1 h"), "duplicates": key_value_store(value=int)}  # noqa: RUF012

    def process(self, record: Record) -> None:
        seen, device, event = self.context.store("seen"), record.key, record.value
        if any(seen_id == event.id for _, seen_id in seen.between(device, since=record.timestamp - HOUR)):
            duplicates = self.context.store("duplicates")
            duplicates.put(device, duplicates.get(device, 0) + 1)
        else:
            seen.put(device, event.id, at=record.timestamp)
            self.context.forward(record, to="unique")

    @punctuate(every="1 min", on="wall")
    def report(self, now: int) -> None:
        duplicates = self.context.store("duplicates")
        for device, count in duplicates.items():
            self.context.forward(key=device, value=count, timestamp=now, to="repeated")
            duplicates.delete(device)


app = App("unique-events")
events = app.stream("events", key=str, value=Event).process(Dedupe, key=str, name="dedupe")
events.to("events.unique", value=Event, name="unique")
events.to("events.repeated", value=int, name="repeated")


def data(seed: int = 7, events: int = 400) -> Iterator[Input]:
    """Yield door events; one in three is sent again within 20 seconds."""
    rng = random.Random(seed)
    for number in range(events):
        clock, door = number * 30_000, f"door-{rng.randrange(5)}"
        event = Event(str(number), rng.choice(("opened", "closed")))
        yield Input("events", door, event, clock)
        if rng.random() < 0.33:
            yield Input("events", door, event, clock + rng.randrange(20_000))


def show(app: App) -> None:
    """Print the number of events, of unique events, and of duplicates that were not reported yet."""
    broker = app.broker
    received, forwarded = (
        sum(offsets.end for offsets in broker.offsets(topic)) for topic in ("events", "events.unique")
    )
    broker.close()
    print(f"\n{received} events received, {forwarded} forwarded; duplicates not yet reported:")
    for door, count in sorted(app.tables["dedupe.duplicates"].items()):
        print(f"  {door}  {count}")


if __name__ == "__main__":
    run_example(app, data(), show)
