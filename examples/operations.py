"""Operations: alerts on errors, visits of the last quarter of an hour, sessions of visitors, receipts at once.

python -m examples.operations            runs it on a made-up day of a shop
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from examples.playing import Sent, play
from millstream import App, Config, hopping, session, tumbling

MANY_ERRORS = 5


class LogLine(msgspec.Struct):
    """What a service logs; the key is the service."""

    level: str
    text: str


class Visit(msgspec.Struct):
    """A page view; the key is the visitor."""

    page: str


class Purchase(msgspec.Struct):
    """A purchase; the key is its number."""

    customer: str
    cents: int


app = App("operations", config=Config(caching=False))  # the very update that goes over the limit must be seen
logs = app.stream("logs", key=str, value=LogLine)
visits = app.stream("visits", key=str, value=Visit)
purchases = app.stream("purchases", key=str, value=Purchase)

# an alert the moment a service logs more than MANY_ERRORS errors within five minutes
(
    logs.filter(lambda line: line.level == "ERROR")
    .group_by_key()
    .windowed_by(tumbling("5 min", grace="30 s"))
    .count(name="errors")
    .to_stream()
    .filter(lambda count: count == MANY_ERRORS + 1)
    .map(lambda window, count: (window.key, f"{window.key}: {count} errors within 5 minutes"))
    .to("alerts", value=str)
)

# how often each page was looked at in the last 15 minutes, every minute anew
visits.group_by(lambda visit: visit.page).windowed_by(hopping("15 min", every="1 min", grace="1 min")).count(
    name="visits_of_15_minutes", retention="1 h"
)

# what a visitor did until 30 minutes of silence
visits.group_by_key().windowed_by(session(gap="30 min", grace="1 min")).emit("final").aggregate(
    list, lambda pages, visit: [*pages, visit.page], lambda one, other: one + other, name="sessions"
).to_stream(lambda window, _pages: window.key).to("sessions")

# a receipt as soon as a purchase arrives: no window, nothing to wait for
purchases.map_values(lambda buy: f"{buy.customer} paid {buy.cents / 100:.2f}").to("receipts", value=str)

_SERVICES = ("cart", "search", "payment")
_PAGES = ("/", "/offers", "/cart", "/help")


def data(seed: int = 7, minutes: int = 240) -> Iterator[Sent]:
    """Yield four hours of a shop in which the payment service has a bad ten minutes; some lines come late."""
    pick = random.Random(seed)
    for minute in range(minutes):
        start = minute * 60_000
        bad = 120 <= minute < 130
        for service in _SERVICES:
            errors = 3 if bad and service == "payment" else int(pick.random() < 0.1)
            for _ in range(errors):
                late = 20_000 if pick.random() < 0.2 else 0
                yield Sent("logs", service, LogLine("ERROR", "timeout"), max(0, start - late))
            yield Sent("logs", service, LogLine("INFO", "alive"), start)
        for visitor in range(12):
            if (minute + visitor * 17) % 90 < 25 and pick.random() < 0.4:
                yield Sent("visits", f"v{visitor}", Visit(pick.choice(_PAGES)), start + pick.randrange(60_000))
        if pick.random() < 0.3:
            yield Sent("purchases", f"p{minute}", Purchase(f"v{pick.randrange(12)}", pick.randrange(99, 9_999)), start)


def show(app: App) -> None:
    """Print alerts, some receipts and sessions, and which pages are looked at just now."""
    for topic, most in (("alerts", 5), ("receipts", 3), ("sessions", 3)):
        with app.consumer(topics=[topic], value=str) as consumer:
            found = consumer.poll("1 s")
        print(f"\n{topic}, {len(found)} in all")
        for record in found[:most]:
            print(f"  minute {record.timestamp // 60_000:>3}  {record.key}  {record.value:.70}")
    table = app.tables["visits_of_15_minutes"]
    now = max(row.timestamp for page in _PAGES for row in table.windows(page)) // 60_000
    print(f"\nvisits of the 15 minutes before minute {now}")
    for page in _PAGES:
        count = next((row.value for row in table.windows(page) if row.key.end == now * 60_000), 0)
        print(f"  {page:<8} {count:>3}  {'█' * count}")


if __name__ == "__main__":
    play(app, data(), show)
