"""The topologies behind the diagrams, run on the test driver, with their results after each record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from docs.pictures.attempts import exactly_once
from docs.pictures.drawing import Bar, Lane, Mark, Picture

from millstream import App, Windowed, hopping, join_window, session, sliding, tumbling
from millstream.broker import TopicConfig
from millstream.consumer import Consumer
from millstream.log import EmbeddedLog
from millstream.producer import Producer
from millstream.testing import TestDriver
from millstream.windows import Windows

SECOND = 1000


def log(scratch: Path) -> Picture:
    """Draw two partitions of a topic and how far two consumer groups have read them."""
    with EmbeddedLog(scratch) as topics:
        topics.create_topic("orders", TopicConfig(partitions=2))

        def send(*orders: tuple[str, int]) -> None:
            with Producer(topics, key=str, value=int) as producer:
                for customer, amount in orders:
                    producer.send("orders", amount, key=customer)

        def read(group: str) -> list[int]:
            with Consumer(topics, group, topics="orders", stop_at_end=True, auto_offset_reset="earliest") as consumer:
                list(consumer)
            committed = topics.committed(group)
            return [committed[key] for key in sorted(committed, key=lambda key: key.partition)]

        send(("ada", 20), ("bob", 5), ("cleo", 7), ("ada", 2), ("dan", 9))
        billing = read("billing")
        send(("bob", 1), ("ada", 4), ("cleo", 8))
        audit = read("audit")
        with Consumer(topics, topics="orders", key=str, value=int, stop_at_end=True) as consumer:
            for partition in range(2):
                consumer.seek("orders", partition, "beginning")
            records = list(consumer)
    lanes = []
    for partition in range(2):
        marks = [
            Mark(record.offset, f"{record.key} {record.value}") for record in records if record.partition == partition
        ]
        bars = [
            Bar(-0.5, offsets[partition] - 0.5, f"{group}: {offsets[partition]}", "row")
            for group, offsets in (("audit", audit), ("billing", billing))
        ]
        lanes.append(Lane(f"orders[{partition}]", marks, bars))
    width = max(record.offset for record in records)
    return Picture(
        "A topic with two partitions, the offsets of its records, and how far two consumer groups have read",
        lanes,
        [(offset, str(offset)) for offset in range(width + 1)],
        "offset",
        -0.5,
        width + 0.5,
    )


def stream(_: Path) -> Picture:
    """Draw lines, the words split from them, and the long words."""
    app = App("lines")
    words = app.stream("lines", value=str).flat_map_values(str.split)
    words.to("words", value=str)
    words.filter(lambda word: len(word) > 3).map_values(str.upper).to("long", value=str)
    lanes: list[list[Mark]] = [[], [], []]
    lines = ["the mill turns", "on", "", "and the stream"]
    with TestDriver(app) as driver:
        for column, line in enumerate(lines):
            driver.topic("lines").pipe(line)
            lanes[0].append(Mark(column, line or "(empty line)"))
            for lane, topic in enumerate(("words", "long"), 1):
                if values := driver.topic(topic).read_values():
                    lanes[lane].append(Mark(column, "\n".join(values), "result"))
    titles = ("lines", "flat_map_values", "filter, map_values")
    description = "Records of a stream, the words split from each, and the words that pass a filter"
    return _by_arrival(
        description, [Lane(title, marks) for title, marks in zip(titles, lanes, strict=True)], len(lines)
    )


def table(_: Path) -> Picture:
    """Draw a table of cities by person and a count of people by city."""
    app = App("people")
    cities = app.table("cities", value=str, name="cities")
    counts = cities.group_by(lambda city: city).count(name="people")
    counts.to_stream().to("changes")
    facts = [("ada", "Rome"), ("bob", "Rome"), ("ada", "Oslo"), ("bob", None)]
    lanes: list[list[Mark]] = [[], [], [], []]
    with TestDriver(app) as driver:
        for column, (person, city) in enumerate(facts):
            driver.topic("cities").pipe(city, key=person)
            lanes[0].append(Mark(column, f"{person} {city or 'null'}"))
            lanes[1].append(_rows(column, driver.table("cities").items()))
            lanes[2].append(_rows(column, driver.table("people").items()))
            lanes[3].append(Mark(column, _lines(driver.topic("changes").read_key_values()), "result"))
    titles = ("topic: cities", "table: cities", "group_by, count", "to_stream")
    description = (
        "Four records in a topic, the resulting table after each, a count of its rows, and the count's changes"
    )
    return _by_arrival(
        description, [Lane(title, marks) for title, marks in zip(titles, lanes, strict=True)], len(facts)
    )


def time(_: Path) -> Picture:
    """Draw records that arrive out of order, stream time, and a window that closes."""
    app = App("time")
    app.stream("readings", value=int).group_by_key().windowed_by(tumbling("10 s", grace="5 s"), late_to="late").count(
        name="per_10_s", retention="1 min"
    )
    times = [2, 7, 12, 9, 16, 8, 18]
    arrivals: list[Mark] = []
    clock: list[tuple[int, int]] = []
    late: list[Mark] = []
    counts: dict[int, list[Mark]] = {0: [], 10: []}
    with TestDriver(app) as driver:
        for column, second in enumerate(times):
            driver.topic("readings").pipe(1, key="t1", timestamp=second * SECOND)
            arrivals.append(Mark(column, f"{second} s"))
            per_10_s = driver.table("per_10_s")
            clock.append((column, _stream_time(per_10_s) // SECOND))
            if driver.topic("late").read():
                late.append(Mark(column, f"{second} s: too late", "late"))
                continue
            start = second // 10 * 10
            counted = per_10_s[Windowed("t1", start * SECOND, (start + 10) * SECOND)]
            counts[start].append(Mark(column, f"count {counted}", "result"))
    closed = next(column for column, now in clock if now >= 15)
    end = len(times) - 0.5
    lanes = [
        Lane("event time", arrivals),
        Lane("stream time", bars=list(_clock_bars(clock, end))),
        Lane(
            "window [0, 10 s)",
            counts[0],
            [Bar(-0.5, closed - 0.5, "open, and 5 s of grace"), Bar(closed - 0.5, end, "closed", "late")],
        ),
        Lane("window [10, 20 s)", counts[10], [Bar(1.5, end, "open")]),
        Lane("late_to", late),
    ]
    description = "Records in order of arrival, stream time, which never moves back, and the counts of two windows"
    return _by_arrival(description, lanes, len(times))


def state(_: Path) -> Picture:
    """Draw two tasks, each with the rows of its own keys."""
    app = App("orders")
    app.stream("orders", value=int).group_by_key().sum(name="spent")
    orders = [("ada", 20), ("bob", 5), ("cleo", 7), ("ada", 2), ("bob", 1)]
    arrivals: list[list[Mark]] = [[], []]
    rows: list[list[Mark]] = [[], []]
    with TestDriver(app, partitions=2) as driver:
        for column, (customer, amount) in enumerate(orders):
            driver.topic("orders").pipe(amount, key=customer)
            spent = driver.table("spent")
            (partition,) = spent.partitions_of(customer)
            arrivals[partition].append(Mark(column, f"{customer} {amount}"))
            pairs = [(row.key, row.value) for row in spent.partition_rows(partition)]
            rows[partition].append(_rows(column, pairs))
    lanes = [
        lane
        for task in range(2)
        for lane in (Lane(f"orders[{task}]", arrivals[task]), Lane(f"state of task {task}", rows[task]))
    ]
    return _by_arrival("Orders in two partitions, and the rows of the two tasks that sum them", lanes, len(orders))


def windows(_: Path) -> Picture:
    """Draw the same five records in four kinds of windows."""
    app = App("windows")
    visits = app.stream("visits", value=str).group_by_key()
    kinds: dict[str, Windows] = {
        "tumbling 10 s": tumbling("10 s", grace="1 h"),
        "hopping 20 s\nevery 10 s": hopping("20 s", every="10 s", grace="1 h"),
        "sliding 10 s": sliding("10 s", grace="1 h"),
        "session\ngap 8 s": session(gap="8 s", grace="1 h"),
    }
    for number, kind in enumerate(kinds.values()):
        visits.windowed_by(kind).count(name=f"w{number}")
    times = [3, 8, 14, 27, 33]
    with TestDriver(app) as driver:
        for second in times:
            driver.topic("visits").pipe("/", key="ada", timestamp=second * SECOND)
        lanes = [Lane("visits of ada", [Mark(second, f"{second} s") for second in times])]
        for number, title in enumerate(kinds):
            rows = sorted(driver.table(f"w{number}").windows("ada"), key=lambda row: (row.key.start, row.key.end))
            bars = [Bar(row.key.start / SECOND, row.key.end / SECOND, str(row.value), "result") for row in rows]
            lanes.append(Lane(title, bars=bars))
    ticks = [(second, f"{second} s") for second in range(0, 51, 10)]
    description = "Five records on a timeline, and the tumbling, hopping, sliding and session windows that count them"
    return Picture(description, lanes, ticks, "event time", 0, 50)


def joins(_: Path) -> Picture:
    """Draw clicks joined with a table, and with the searches of the two seconds before each click."""
    app = App("clicks")
    cities = app.table("cities", value=str)
    clicks, searches = app.stream("clicks", value=str), app.stream("searches", value=str)
    clicks.join(cities, lambda click, city: f"{click} in {city}").to("with-table", value=str)
    window = join_window(before="2 s", after="0 s")
    for verb in (clicks.join, clicks.left_join):
        verb(searches, lambda click, search: f"{click} after {search}", within=window, name=verb.__name__).to(
            verb.__name__, value=str
        )
    records = [
        ("cities", "Rome", 0),
        ("searches", "hats", 1),
        ("clicks", "boots", 2.5),
        ("cities", "Oslo", 4),
        ("searches", "pens", 5),
        ("clicks", "ink", 6.5),
        ("clicks", "cup", 9),
        ("clicks", "pen", 12),
    ]
    lanes = {name: list[Mark]() for name in ("cities", "searches", "clicks", "with-table", "join", "left_join")}
    with TestDriver(app) as driver:
        for topic, value, second in records:
            driver.topic(topic).pipe(value, key="ada", timestamp=int(second * SECOND))
            lanes[topic].append(Mark(second, value, "row" if topic == "cities" else "record"))
            for name in ("with-table", "join", "left_join"):
                for result in driver.topic(name).read():
                    lanes[name].append(Mark(second, result.value.replace(" ", "\n", 1), "result"))
    titles = ("cities (table)", "searches", "clicks", "join cities", "join searches", "left_join searches")
    picture_lanes = [Lane(title, marks) for title, marks in zip(titles, lanes.values(), strict=True)]
    ticks = [(second, f"{second} s") for second in range(0, 13, 2)]
    description = "A table, two streams, and the results of joining them, each below the record that triggered it"
    return Picture(description, picture_lanes, ticks, "time", -0.5, 12.5)


def _by_arrival(description: str, lanes: list[Lane], columns: int) -> Picture:
    ticks = [(column, str(column + 1)) for column in range(columns)]
    return Picture(description, lanes, ticks, "arrival", -0.5, columns - 0.5)


def _rows(column: int, rows: Iterable[tuple[Any, Any]]) -> Mark:
    return Mark(column, _lines(sorted(rows)) or "(empty)", "row")


def _lines(pairs: Iterable[tuple[Any, Any]]) -> str:
    return "\n".join(f"{key} {value}" for key, value in pairs)


def _stream_time(windows: Any) -> int:
    timestamp: int = windows.stream_time(0)
    return timestamp


def _clock_bars(clock: list[tuple[int, int]], end: float) -> Iterable[Bar]:
    """Yield a bar for each value of a clock, up to the column where the next value starts."""
    changes = [(column, now) for number, (column, now) in enumerate(clock) if not number or clock[number - 1][1] != now]
    ends = [column - 0.5 for column, _ in changes[1:]] + [end]
    return (Bar(column - 0.5, stop, f"{now} s", "row") for (column, now), stop in zip(changes, ends, strict=True))


PICTURES: dict[str, Callable[[Path], Picture]] = {
    "log": log,
    "stream": stream,
    "table": table,
    "time": time,
    "state": state,
    "windows": windows,
    "joins": joins,
    "exactly-once": exactly_once,
}
"""Each function gets an empty directory for its run and returns the diagram of that run."""
