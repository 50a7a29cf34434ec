"""Records that cross a shuffle only to be counted are counted as arrays: with the same results as one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.task.outcomes import rows

from millstream import App, Config, hopping, tumbling, unlimited
from millstream.batch.batch import Batch, Progress, progress_after
from millstream.batch.execute import run_batch, task_names
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.foundation.object_codec import encode_key
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.operators.build import EntryPoint, build
from millstream.plan.layout import Layout
from millstream.serdes import JSON
from millstream.task import record_loop
from millstream.task import run as task_run
from millstream.task.environment import TaskEnvironment
from millstream.task.policy import Policies
from millstream.task.record_loop import RecordLoop
from millstream.task.shuffle_format import shuffle_columns
from millstream.task.task_input import Range
from millstream.windows import Windows

Sent = list[tuple[int, int, int]]
"""The partition, the key that it is grouped by, and how far the timestamp is off a steady pace."""

NULL_KEY, NULL_VALUE = 7, 8
DELAYS = st.sampled_from([0] * 20 + [-1, 1, 2, 4, 9, -5, -12, -40])
SENT = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), DELAYS), min_size=40, max_size=150)

WINDOWS: dict[str, Windows | None] = {
    "no windows": None,
    "tumbling": tumbling("20 ms", grace="10 ms"),
    "tumbling without grace": tumbling("7 ms", grace="0 ms"),
    "hopping": hopping("20 ms", every="5 ms", grace="10 ms"),
    "unlimited": unlimited(start=60),
}

KEYS: dict[str, Callable[[int], Any]] = {
    "numbers": lambda number: number,
    "text": str,
    "mixed": lambda number: (number, str(number), float(number), (number, "x"))[number % 4],
}


def counting(windows: Windows | None, key: str, *, late_to: str | None = None) -> App:
    app = App("counts", config=Config(partitions=3))
    key_of = KEYS[key]
    groups: Any = (
        app.stream("n", value=JSON)
        .filter(lambda _: True)
        .group_by(lambda value: None if value == NULL_KEY else key_of(value or 0))
    )
    if windows is not None:
        groups = groups.windowed_by(windows, late_to=late_to)
    groups.count(name="results").to_stream(lambda key, _: str(key)).to("out")
    return app


SQL_WINDOWS = {
    "tumbling": "TUMBLING (SIZE 20 MILLISECONDS, GRACE PERIOD 10 MILLISECONDS)",
    "hopping": "HOPPING (SIZE 20 MILLISECONDS, ADVANCE BY 5 MILLISECONDS, GRACE PERIOD 10 MILLISECONDS)",
}


def counting_in_sql(windows: str) -> App:
    """Count twice, since the state is a list then, and change the rows of the table."""
    app = App("counts", config=Config(partitions=3))
    app.sql(f"""
        CREATE STREAM n (v INT) WITH (KAFKA_TOPIC = 'n', VALUE_FORMAT = 'JSON', WRAP_SINGLE_VALUE = FALSE);
        CREATE TABLE o WITH (KAFKA_TOPIC = 'out') AS
            SELECT v, COUNT(*) AS n, COUNT(*) * 2 AS m, AS_VALUE(v) AS again, WINDOWSTART AS start FROM n
            WINDOW {SQL_WINDOWS[windows]} GROUP BY v;
    """)
    return app


@contextmanager
def loaded_log(sent: Sent, *, headers: bool = False) -> Iterator[tuple[EmbeddedLog, list[list[int]]]]:
    """Write records to three partitions; also return for each record the offsets after it."""
    with TemporaryDirectory() as directory, EmbeddedLog(Path(directory), durability="os") as log:
        log.create_topic("n", TopicConfig(partitions=3))
        records: list[list[tuple[bytes, int]]] = [[], [], []]
        ends = [[0, 0, 0]]
        for number, (partition, key, delay) in enumerate(sent):
            value = b"null" if key == NULL_VALUE else b"%d" % key
            records[partition].append((value, 50 + number // 2 + delay))
            ends.append([len(part) for part in records])
        for partition, part in enumerate(records):
            if part:
                marks = [(("h", value),) for value, _ in part] if headers else None
                block = block_of([None] * len(part), [value for value, _ in part], [time for _, time in part], marks)
                log.append([Output("n", partition, block)])
        yield log, ends
        close_environments(Path(directory))


def effects(app: App, sent: Sent, cuts: set[int], *, caching: bool = True, headers: bool = False) -> Any:
    """Run an app over three partitions, in batches that end at the cuts; return all that it has written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_loop, "MIN_CODED", 1)
        return _effects(app, sent, cuts, caching=caching, headers=headers)


def _effects(app: App, sent: Sent, cuts: set[int], *, caching: bool, headers: bool) -> Any:
    with loaded_log(sent, headers=headers) as (log, ends), TemporaryDirectory() as state_dir:
        layout = Layout.of(app.plan, {"n": 3})
        env = TaskEnvironment(
            app=app.id,
            layout=layout,
            broker=log,
            state_dir=Path(state_dir),
            policies=Policies.of(app.id, app.config),
            caching=caching,
            durable=False,
            new_topic=TopicConfig(partitions=1),
        )
        names, progress, reported = task_names(layout), Progress(), []
        bounds = [0, *sorted(cut for cut in cuts if 0 < cut < len(sent)), len(sent)]
        for number, (start, stop) in enumerate(pairwise(bounds), 1):
            ranges = (Range("n", part, ends[start][part], ends[stop][part]) for part in range(3))
            batch = Batch(number=number, wall_time=0, ranges=tuple(item for item in ranges if item.start < item.stop))
            reports = run_batch(env, batch, progress.versions)
            progress = progress_after(progress, batch, names, reports)
            reported += [
                (report.task, report.records_in, report.records_out, report.dropped, report.stream_time, report.rows)
                for report in reports
            ]
        stores = [
            (name, dict(env.state(task).scan(name)))
            for task in range(len(layout.tasks))
            for name in env.stage(task)[0].store_names
        ]
        written = {topic: rows(log, topic) for topic in log.topic_names() if topic != "n"}
        close_environments(Path(state_dir))
        return written, stores, reported


def one_by_one(app: App, sent: Sent, cuts: set[int], **options: bool) -> Any:
    """Run an app without the functions for column batches and coded records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            task_run,
            "build",
            lambda *given: {node: EntryPoint(entry.process, None) for node, entry in build(*given).items()},
        )
        return effects(app, sent, cuts, **options)


@pytest.mark.slow
@pytest.mark.parametrize("windows", WINDOWS)
@given(
    sent=SENT,
    cuts=st.sets(st.integers(10, 120), max_size=2),
    key=st.sampled_from(list(KEYS)),
    special=st.sampled_from(
        ["none"] * 6 + ["every update"] * 6 + ["null keys", "null values", "headers", "late topic"]
    ),
)
@settings(max_examples=25, deadline=None)
def test_coded_records_have_the_same_effects_as_single_ones(
    windows: str, sent: Sent, cuts: set[int], key: str, special: str
) -> None:
    null = {"null keys": NULL_KEY, "null values": NULL_VALUE}.get(special)
    sent = [(part, null if null is not None and number == 5 else number, delay) for part, number, delay in sent]
    app = counting(WINDOWS[windows], key, late_to="late" if special == "late topic" else None)
    options = {"caching": special != "every update", "headers": special == "headers"}
    assert effects(app, sent, cuts, **options) == one_by_one(app, sent, cuts, **options)


@pytest.mark.parametrize("windows", SQL_WINDOWS)
@given(sent=SENT, cuts=st.sets(st.integers(10, 120), max_size=2), caching=st.booleans(), has_null=st.booleans())
@settings(max_examples=12, deadline=None)
def test_so_they_have_in_sql(windows: str, sent: Sent, cuts: set[int], caching: bool, has_null: bool) -> None:
    sent = [(part, NULL_VALUE if has_null and number == 5 else number, delay) for part, number, delay in sent]
    app = counting_in_sql(windows)
    assert effects(app, sent, cuts, caching=caching) == one_by_one(app, sent, cuts, caching=caching)


@pytest.mark.parametrize(
    ("windows", "caching", "in_sql"),
    [
        *(("no windows", True, False), ("tumbling", True, False), ("hopping", True, False), ("tumbling", False, False)),
        *(("tumbling", True, True), ("tumbling", False, True)),
    ],
)
def test_the_comparison_reaches_the_counts_of_arrays(
    windows: str, caching: bool, in_sql: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above could not fail for code that it never runs."""
    coded: Counter[bool] = Counter()
    process = RecordLoop._process_coded

    def counted(loop: RecordLoop, entry_point: Any, chunk: Any, start: int, stop: int) -> bool:
        done = process(loop, entry_point, chunk, start, stop)
        coded[done] += stop - start
        return done

    monkeypatch.setattr(RecordLoop, "_process_coded", counted)
    sent = [(number % 3, number % 6, 0) for number in range(150)]
    app = counting_in_sql(windows) if in_sql else counting(WINDOWS[windows], "numbers")
    effects(app, sent, {70}, caching=caching)
    assert coded == {True: 150, False: 150}  # false for those of the topic, which have values


def test_late_records_are_dropped_and_counted() -> None:
    """
    0        20       40       60
    |--------|--------|--------|    windows, 10 ms of grace
         ^ late: stream time is 115
    """
    sent = [(0, 1, 0)] * 130 + [(0, 1, -60)]
    _, _, reported = effects(counting(WINDOWS["tumbling"], "numbers"), sent, set())
    assert sum(dropped.get("results: late", 0) for _, _, _, dropped, _, _ in reported) == 1


def test_a_block_of_an_older_version_is_read() -> None:
    """It has eight bytes per code, and an empty value for each record that is only counted."""
    codes, times = b"".join(n.to_bytes(8, "little") for n in (1, 0)), b"".join(n.to_bytes(8, "little") for n in (5, 6))
    columns = shuffle_columns(
        msgspec.msgpack.encode([[encode_key("a"), encode_key("b")], codes, [b"", b""], times, {}])
    )
    assert columns.rows() == (["b", "a"], [b"", b""], [5, 6], None)
