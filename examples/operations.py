"""Operations: error alerts, visits in the last 15 minutes, visitor sessions, immediate receipts.

python -m examples.operations            runs it on four hours of generated shop data
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from examples.harness import Input, run_example
from millstream import App, Config, hopping, session, tumbling

ERROR_LIMIT = 5


class LogLine(msgspec.Struct):
    """A log line of a service; the key is the service."""

    level: str
    text: str


class Visit(msgspec.Struct):
    """A page view; the key is the visitor."""

    page: str


class Purchase(msgspec.Struct):
    """A purchase; the key is its number."""

    customer: str
    cents: int


app = App("operations", config=Config(caching=False))  # the update that exceeds the limit must not be skipped
logs = app.stream("logs", key=str, value=LogLine)
visits = app.stream("visits", key=str, value=Visit)
purchases = app.stream("purchases", key=str, value=Purchase)

# an alert as soon as a service logs more than ERROR_LIMIT errors within five minutes
(
    logs.filter(lambda line: line.level == "ERROR")
    .group_by_key()
    .windowed_by(tumbling("5 min", grace="30 s"))
    .count(name="errors")
    .to_stream()
    .filter(lambda count: count == ERROR_LIMIT + 1)
    .map(lambda window, count: (window.key, f"{window.key}: {count} errors within 5 minutes"))
    .to("alerts", value=str)
)

# how often each page was visited in the last 15 minutes, updated every minute
visits.group_by(lambda visit: visit.page).windowed_by(hopping("15 min", every="1 min", grace="1 min")).count(
    name="visits_in_15_minutes", retention="1 h"
)

# what a visitor did, until 30 minutes of inactivity
visits.group_by_key().windowed_by(session(gap="30 min", grace="1 min")).emit("final").aggregate(
    list, lambda pages, visit: [*pages, visit.page], lambda earlier, later: earlier + later, name="sessions"
).to_stream(lambda window, _pages: window.key).to("sessions")

# a receipt as soon as a purchase arrives: there is no window to wait for
purchases.map_values(lambda purchase: f"{purchase.customer} paid {purchase.cents / 100:.2f}").to("receipts", value=str)

_SERVICES = ("cart", "search", "payment")
_PAGES = ("/", "/offers", "/cart", "/help")


def data(seed: int = 7, minutes: int = 240) -> Iterator[Input]:
    """Yield four hours of a shop in which the payment service fails for ten minutes; some log lines are late."""
    rng = random.Random(seed)
    for minute in range(minutes):
        start = minute * 60_000
        is_failing = 120 <= minute < 130
        for service in _SERVICES:
            errors = 3 if is_failing and service == "payment" else int(rng.random() < 0.1)
            for _ in range(errors):
                delay = 20_000 if rng.random() < 0.2 else 0
                yield Input("logs", service, LogLine("ERROR", "timeout"), max(0, start - delay))
            yield Input("logs", service, LogLine("INFO", "alive"), start)
        for visitor in range(12):
            if (minute + visitor * 17) % 90 < 25 and rng.random() < 0.4:
                yield Input("visits", f"v{visitor}", Visit(rng.choice(_PAGES)), start + rng.randrange(60_000))
        if rng.random() < 0.3:
            yield Input("purchases", f"p{minute}", Purchase(f"v{rng.randrange(12)}", rng.randrange(99, 9_999)), start)


def show(app: App) -> None:
    """Print alerts, some receipts and sessions, and the recent visits of each page."""
    for topic, limit in (("alerts", 5), ("receipts", 3), ("sessions", 3)):
        with app.consumer(topics=[topic], value=str) as consumer:
            records = consumer.poll("1 s")
        print(f"\n{topic}, {len(records)} in total")
        for record in records[:limit]:
            print(f"  minute {record.timestamp // 60_000:>3}  {record.key}  {record.value:.70}")
    table = app.tables["visits_in_15_minutes"]
    now = max(row.timestamp for page in _PAGES for row in table.windows(page)) // 60_000
    print(f"\nvisits in the 15 minutes before minute {now}")
    for page in _PAGES:
        count = next((row.value for row in table.windows(page) if row.key.end == now * 60_000), 0)
        print(f"  {page:<8} {count:>3}  {'█' * count}")


if __name__ == "__main__":
    run_example(app, data(), show)
