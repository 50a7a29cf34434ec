"""Let each event through once: a processor that remembers ids for an hour, and tells every minute what it left out.

millstream run examples/unique_events.py
millstream produce events --key door-1 --value '{"id": "7", "what": "opened"}'
millstream consume events.unique --from-beginning
millstream tables scan dedupe.seen --app unique-events
"""

import msgspec

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

if __name__ == "__main__":
    app.main()
