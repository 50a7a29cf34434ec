"""What producers, consumers, table readers and the test driver infer."""

from __future__ import annotations

from typing import Any, assert_type

from tests.typing.rides import Ride

from millstream import App, Record
from millstream.consumer import Consumer
from millstream.producer import Producer
from millstream.queues.share_consumer import ShareConsumer
from millstream.tables.rows import Row, TableReader
from millstream.testing import TestDriver
from millstream.testing.topic import TestTopic

app = App("clients")
app.stream("rides", value=Ride).group_by(lambda ride: ride.zone).count(name="counts").to_stream().to("out", key=int)


def produce(ride: Ride) -> None:
    """Send a ride."""
    with app.producer(value=Ride, acks="written") as producer:
        assert_type(producer, Producer[Any, Ride])
        producer.send("rides", ride, key=5)
        producer.send("rides", key="gone")
    with app.producer(key=str) as plain:
        assert_type(plain, Producer[str, Any])
        plain.send("rides", {"zone": 5}, key="a")


def consume() -> None:
    """Read the counts."""
    with app.consumer("audit", topics="out", key=int, value=int, stop_at_end=True) as consumer:
        assert_type(consumer, Consumer[int, int])
        for record in consumer:
            assert_type(record, Record[int, int])
        assert_type(consumer.poll("1 s"), list[Record[int, int]])
    assert_type(app.consumer(topics=["rides"]), Consumer[str, Any])


def share() -> None:
    """Take jobs."""
    with app.share_consumer("drivers", topics="rides", value=Ride, lock="1 min") as queue:
        assert_type(queue, ShareConsumer[str, Ride])
        for job in queue:
            assert_type(job, Record[str, Ride])
        assert_type(queue.poll(max_records=5), list[Record[str, Ride]])


@app.worker("rides", group="drivers", value=Ride, concurrency=4)
def drive(job: Record[str, Ride]) -> int:
    """Do a job."""
    return job.value.zone


def read() -> None:
    """Look counts up."""
    assert_type(app.tables["counts"], TableReader[Any, Any])
    counts: TableReader[int, int] = app.tables["counts"]
    assert_type(counts[5], int)
    assert_type(counts.get(5), int | None)
    assert_type(counts.get(5, 0), int)
    assert_type(counts.row(5), Row[int, int] | None)
    assert_type(dict(counts.items()), dict[int, int])


with TestDriver(app) as driver:
    rides = driver.topic("rides", value=Ride)
    assert_type(rides, TestTopic[Any, Ride])
    out = driver.topic("out", key=int, value=int)
    assert_type(out.read_key_values(), list[tuple[int, int]])
    assert_type(out.read(), list[Record[int, int]])
    assert_type(driver.topic("out").read_values(), list[Any])
