"""Sensors: thermometers whose clocks are wrong, some that were offline, and some that fall silent.

python -m examples.sensors               runs it on made-up thermometers
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import msgspec

from examples.playing import Sent, play
from millstream import App, Record, Windowed, device_clock, max_of, mean_of, min_of, tumbling

MINUTE = 60_000
IDLE = "5 s"
"""In life this is longer than records take to arrive; here nobody wants to wait."""


class Reading(msgspec.Struct):
    """A temperature; both times are by the clock of the thermometer, which is the key."""

    celsius: float
    occurred: int
    sent: int


app = App("sensors")

# the record's own timestamp is when the gateway received it: that clock is right, and sent - occurred is trusted;
# when nothing comes for a while, time follows the clock on the wall
readings = app.stream(
    "readings",
    key=str,
    value=Reading,
    timestamp=device_clock(occurred="occurred", sent="sent"),
    on_invalid="skip",
    idle_after=IDLE,
)

# a device that was offline sends its readings in a batch, up to ten minutes late
per_minute = readings.group_by_key().windowed_by(tumbling("1 min", grace="10 min"), late_to="readings.late")
per_minute.agg(
    low=min_of("celsius"), high=max_of("celsius"), mean=mean_of("celsius"), name="per_minute", retention="6 h"
)

# each minute once, when it has closed; kept long enough to be closed by a clock that jumps over a silence
closed = readings.group_by_key().windowed_by(tumbling("1 min", grace="10 min")).emit("final")
minutes = closed.agg(high=max_of("celsius"), name="closed", retention="6 h").to_stream()
minutes.to("minutes", key=Windowed)
minutes.filter(lambda value: value["high"] > 30).to("too-hot", key=Windowed)

_OFFLINE = range(10, 18)
_FAR_AWAY = range(25, 45)


def data(seed: int = 7, minutes: int = 60, start: int | None = None) -> Iterator[Sent]:
    """Yield an hour of eight thermometers with clocks of their own, which ended a quarter of an hour ago.

    t5 is offline for eight minutes and then sends all it has; t6 is for twenty, which is too long for most of it;
    t7 falls silent.
    """
    pick = random.Random(seed)
    begin = time.time_ns() // 1_000_000 - (minutes + 15) * MINUTE if start is None else start
    begin -= begin % MINUTE
    error = {f"t{number}": pick.randrange(-86_400_000, 86_400_000) for number in range(8)}
    waiting: dict[str, list[tuple[int, float]]] = {"t5": [], "t6": []}
    for minute in range(minutes):
        for name, wrong_by in error.items():
            now = begin + minute * MINUTE + pick.randrange(50_000)
            celsius = round(20 + 6 * pick.random() + (8 if name == "t2" and 20 <= minute < 25 else 0), 1)
            if name == "t7" and minute > 40:
                continue  # silent from now on
            if (name == "t5" and minute in _OFFLINE) or (name == "t6" and minute in _FAR_AWAY):
                waiting[name].append((now, celsius))
                continue
            for then, warmth in waiting.get(name, ()):
                yield Sent("readings", name, Reading(warmth, then + wrong_by, now + wrong_by), now)
            if name in waiting:
                waiting[name].clear()
            yield Sent("readings", name, Reading(celsius, now + wrong_by, now + wrong_by), now)


def show(app: App) -> None:
    """Print the minutes of each thermometer, and let the ones that are still open close by themselves."""
    table = app.tables["per_minute"]
    print("\nthermometer  minutes  mean of the last one")
    for number in range(8):
        rows = table.windows(f"t{number}")
        print(f"  t{number}         {len(rows):>4}     {rows[-1].value['mean']:.1f} °C")
    with app.consumer(topics=["readings.late"], key=str) as consumer:
        late = consumer.poll("1 s")
    print(f"\n{len(late)} readings were more than ten minutes late, all of {_keys(late)}; they are in readings.late")

    with app.consumer(topics=["minutes"], key=Windowed) as consumer:
        done = len(consumer.poll("1 s"))
        print(f"\n{done} minutes have closed, {len(table) - done} are open, and no reading comes any more …")
        run, deadline = app.start(), time.monotonic() + 60
        while done < len(table) and time.monotonic() < deadline:
            done += len(consumer.poll("1 s"))
        run.stop()
        run.wait()
    print(f"after {IDLE} of silence time went on by the clock: {done} have closed, {len(table) - done} are open")
    with app.consumer(topics=["too-hot"], key=Windowed) as consumer:
        hot = consumer.poll("1 s")
    print(f"\n{len(hot)} minutes were too hot, all of {', '.join(sorted({one.key.key for one in hot}))}")


def _keys(records: list[Record]) -> str:
    return ", ".join(sorted({str(record.key) for record in records}))


if __name__ == "__main__":
    play(app, data(), show)
