"""Sensors: thermometers whose clocks are wrong, some that were offline, and some that fall silent.

python -m examples.sensors               runs it on made-up thermometers
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from examples.playing import Sent, play
from millstream import App, device_clock, max_of, mean_of, min_of, tumbling


class Reading(msgspec.Struct):
    """A temperature; both times are by the clock of the thermometer, which is the key."""

    celsius: float
    occurred: int
    sent: int


app = App("sensors")

# the record's own timestamp is when the gateway received it: that clock is right, and sent - occurred is trusted
readings = app.stream(
    "readings", key=str, value=Reading, timestamp=device_clock(occurred="occurred", sent="sent"), on_invalid="skip"
)

# a device that was offline sends its readings in a batch, up to ten minutes late
per_minute = readings.group_by_key().windowed_by(tumbling("1 min", grace="10 min"))
per_minute.agg(low=min_of("celsius"), high=max_of("celsius"), mean=mean_of("celsius"), name="per_minute")
per_minute.emit("final").agg(high=max_of("celsius"), name="closed").to_stream(lambda window, _value: window.key).filter(
    lambda value: value["high"] > 30
).to("too-hot")

_START = 1_772_000_000_000


def data(seed: int = 7, minutes: int = 60) -> Iterator[Sent]:
    """Yield readings of eight thermometers with clocks of their own; one is offline for a while, one falls mute."""
    pick = random.Random(seed)
    error = {f"t{number}": pick.randrange(-86_400_000, 86_400_000) for number in range(8)}
    waiting: list[tuple[int, float]] = []
    for minute in range(minutes):
        for name, wrong_by in error.items():
            now = _START + minute * 60_000 + pick.randrange(50_000)
            celsius = round(20 + 6 * pick.random() + (8 if name == "t2" and 20 <= minute < 25 else 0), 1)
            if name == "t7" and minute > 40:
                continue  # silent from now on
            if name == "t5" and 10 <= minute < 18:
                waiting.append((now, celsius))  # offline
                continue
            if name == "t5" and waiting:
                for then, warmth in waiting:
                    yield Sent("readings", name, Reading(warmth, then + wrong_by, now + wrong_by), now)
                waiting.clear()
            yield Sent("readings", name, Reading(celsius, now + wrong_by, now + wrong_by), now)


def show(app: App) -> None:
    """Print the last minute of each thermometer that is still kept, and how many minutes were too hot."""
    print("\nthermometer, last minute")
    for number in range(8):
        rows = app.tables["per_minute"].windows(f"t{number}")
        told = "silent for longer than minutes are kept"
        if rows:
            told = f"{(rows[-1].key.start - _START) // 60_000}: {rows[-1].value['mean']:.1f} °C"
        print(f"  t{number}  {told}")
    with app.consumer(topics=["too-hot"], key=str) as consumer:
        hot = consumer.poll("1 s")
    print(f"\n{len(hot)} closed minutes were too hot, all of {', '.join(sorted({str(one.key) for one in hot}))}")


if __name__ == "__main__":
    play(app, data(), show)
