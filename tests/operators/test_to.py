from pathlib import Path
from typing import Any

import pytest
from tests.kafka.running import run_to_end

from millstream import App, Config, tumbling
from millstream.broker import TopicConfig
from millstream.consumer import Consumer
from millstream.errors import DefinitionError, InvalidNameError, ProcessingError
from millstream.foundation.partitioning import partition_of
from millstream.log import EmbeddedLog
from millstream.producer import Producer
from millstream.serdes import INT64
from millstream.testing import TestDriver


def test_a_stream_may_be_written_to_several_topics_and_a_topic_by_several_streams() -> None:
    app = App("test")
    numbers = app.stream("n", value=int)
    numbers.to("a")
    numbers.to("b")
    numbers.map_values(lambda n: -n).to("b")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1)
        assert (driver.topic("a").read_values(), driver.topic("b").read_values()) == ([1], [1, -1])


def test_the_topic_may_be_computed_and_is_created_on_first_use() -> None:
    app = App("test")
    app.stream("n", value=int).to(lambda key, n, context: f"{key}.{context.topic}.{n % 2}")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, 2, 3, key="k")
        assert driver.topics == ["k.n.0", "k.n.1", "n"]
        assert (driver.topic("k.n.0").read_values(), driver.topic("k.n.1").read_values()) == ([2], [1, 3])


@pytest.mark.parametrize("name", ["../up", "", None, 7])
def test_a_computed_topic_with_a_wrong_name_is_an_error_of_the_record(name: Any) -> None:
    app = App("test")
    app.stream("n", value=int).to(lambda _: name)
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match=r"topic name .* is not allowed"):
        driver.topic("n").pipe(1)


def test_a_fixed_topic_with_a_wrong_name_is_rejected_at_once() -> None:
    with pytest.raises(InvalidNameError, match="topic name 'a/b' is not allowed"):
        App("test").stream("n").to("a/b")


def test_keys_are_text_and_values_json_unless_declared() -> None:
    app = App("test")
    changed = app.stream("n", value=int).map(lambda n: ((n, "x"), {"n": n}))
    changed.to("plain")
    changed.map(lambda key, value: (key[0], value["n"])).to("declared", key=INT64, value=INT64)
    app.stream("plain", "declared", key=bytes, value=bytes).to("raw")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1)
        assert driver.topic("raw").read_key_values() == [
            (b'[1,"x"]', b'{"n":1}'),
            (b"\0\0\0\0\0\0\0\1", b"\0\0\0\0\0\0\0\1"),
        ]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (object(), 1, "cannot encode key <object object at .*> as readable"),
        ("k", object(), "cannot encode value <object object at .*> as json"),
    ],
)
def test_an_encode_error_names_key_or_value_and_the_serde(key: object, value: object, message: str) -> None:
    app = App("test")
    app.stream("n", value=int).map(lambda _: (key, value)).to("out", name="end")
    with (
        TestDriver(app) as driver,
        pytest.raises(ProcessingError, match=f"node 'end' failed .*: SerdeError: {message}"),
    ):
        driver.topic("n").pipe(1)


def test_an_app_may_read_what_it_writes() -> None:
    app = App("test")
    app.stream("n", value=int).filter(lambda n: n > 0).map_values(lambda n: n - 1).to("n")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(3)
        assert driver.topic("n").read_values() == [3, 2, 1, 0]


def test_the_error_policy_applies_to_a_record_too_large_for_its_topic() -> None:
    app = App("test", config=Config(on_error="skip"))
    app.stream("in", value=int).map_values(lambda n: "x" * n).to("out")
    with TestDriver(app) as driver:
        driver.topic("in").pipe(1, 2_000_000, 2)
        assert driver.topic("out").read_values() == ["x", "xx"]


class Textual:
    """A serde that returns text instead of bytes."""

    name = "textual"

    def encode(self, item: object) -> bytes:
        return str(item)  # type: ignore[return-value]

    def decode(self, data: bytes) -> str:
        return data.decode()


def test_a_serde_that_does_not_return_bytes_is_an_error_of_the_record() -> None:
    app = App("test")
    app.stream("n", value=int).to("out", value=Textual())
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match="serde textual encodes to str, not to bytes"):
        driver.topic("n").pipe(1)


def test_a_partitioner_chooses_the_partition_and_none_means_that_of_the_key() -> None:
    app = App("test")
    app.stream("n", value=int).to("out", partitioner=lambda _key, n, count: None if n < 0 else n % count)
    with TestDriver(app, partitions=5) as driver:
        driver.topic("n").pipe(3, 9, -1, key="k")
        records = driver.topic("out").read()
    assert {record.value: record.partition for record in records} == {3: 3, 9: 4, -1: partition_of(b"k", 5)}


def test_a_partitioner_may_write_a_record_to_several_partitions_or_to_none() -> None:
    app = App("test")
    app.stream("n", value=int).to("out", partitioner=lambda _key, n, count: range(count) if n else [])
    with TestDriver(app, partitions=3) as driver:
        driver.topic("n").pipe(0, 7, key="k", headers={"h": b"1"})
        records = driver.topic("out").read()
        assert driver.dropped == {"n.sink: no_partition": 1}
    assert [(record.partition, record.key, record.value, record.headers) for record in records] == [
        (partition, "k", 7, (("h", b"1"),)) for partition in range(3)
    ]


def test_many_records_are_written_to_the_partitions_of_the_partitioner(tmp_path: Path) -> None:
    app = App("test", data_dir=tmp_path)
    app.stream("n", value=int).to("out", partitioner=lambda _key, n, count: [n % count, (n + 1) % count])
    with EmbeddedLog(tmp_path / "log", durability="os") as log:
        for topic in ("n", "out"):
            log.create_topic(topic, TopicConfig(partitions=4))
        with Producer(log) as producer:
            for n in range(500):
                producer.send("n", n, key=str(n))
        run_to_end(app, log)
        with Consumer(log, topics="out", value=int, stop_at_end=True) as consumer:
            placed = sorted((record.value, record.partition) for record in consumer)
    assert placed == sorted((n, (n + shift) % 4) for n in range(500) for shift in range(2))


def test_a_partitioner_is_called_for_windowed_keys_too() -> None:
    app = App("test")
    counts = app.stream("n", value=int).group_by_key().windowed_by(tumbling("1 s")).count(name="counts")
    counts.to_stream().to("out", partitioner=lambda key, _count, partitions: None if key.start else partitions - 1)
    with TestDriver(app, partitions=3) as driver:
        driver.topic("n").pipe(1, 1, key="k", timestamp=0, advance="1 s")
        records = driver.topic("out").read()
    assert {record.key.start: record.partition for record in records} == {0: 2, 1000: partition_of(b"k", 3)}


@pytest.mark.parametrize("choice", [3, -1, 1.5, True, [0, 3]])
def test_a_partition_that_the_topic_does_not_have_is_an_error_of_the_record(choice: Any) -> None:
    app = App("test")
    app.stream("n", value=int).to("out", partitioner=lambda _key, _n, _count: choice, name="end")
    with (
        TestDriver(app, partitions=3) as driver,
        pytest.raises(ProcessingError, match=r"the partitioner of 'end' chose .*; return a partition from 0 to 2"),
    ):
        driver.topic("n").pipe(1)


def test_a_partitioner_takes_key_value_and_number_of_partitions() -> None:
    stream: Any = App("test").stream("n")
    with pytest.raises(DefinitionError, match=r"it must take \(key, value, partitions\)"):
        stream.to("out", partitioner=lambda _key, _value: 0)
