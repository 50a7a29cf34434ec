"""Wrong values for producers, wrong use of what consumers and readers return."""

from __future__ import annotations

from tests.typing.rides import Ride

from millstream import App, Record
from millstream.serdes import INT64, Json
from millstream.tables.rows import TableReader
from millstream.testing import TestDriver

app = App("clients")


def produce(ride: Ride) -> None:
    """Send wrong records."""
    with app.producer(key=int, value=Ride) as producer:
        producer.send("rides", {"zone": 1}, key=5)  # refused: a dict is not a ride
        producer.send("rides", ride, key="a")  # refused: the key is a number
    app.producer(value=Ride, ack="none")  # refused: a misspelt option
    app.producer(acks="some")  # refused: no such choice


def consume() -> None:
    """Read records in a wrong way."""
    for record in app.consumer(topics="rides", value=Ride):
        print(record.value.prize)  # refused: a misspelt field
        print(record.key + 1)  # refused: the key is text
    app.consumer("audit")  # refused: no topics
    app.consumer("audit", topics="rides", timeout="1 s", stop_at_the_end=True)  # refused: a misspelt option


def share() -> None:
    """Take jobs in a wrong way."""
    app.share_consumer("drivers", topics="rides", locks="1 min")  # refused: a misspelt option
    queue = app.share_consumer("drivers", topics="rides", value=Ride)
    queue.accept(5)  # refused: a number is not a record


@app.worker("rides", group="drivers", value=Ride)  # refused: the function takes numbers
def drive(job: Record[str, int]) -> None:
    """Do a job."""


def read(driver: TestDriver) -> None:
    """Read a table in a wrong way."""
    counts: TableReader[str, int] = app.tables["counts"]
    counts[5]  # refused: the key is text
    counts["a"].upper()  # refused: a number
    counts.get("a") + 1  # refused: there may be no row
    driver.topic("rides", value=Ride).pipe(5)  # refused: a number is not a ride


app.stream("a", value=5)  # refused: neither a type nor a serde
app.stream("b", key=INT64).map_values(lambda key, value: key.upper())  # refused: the key is a number
app.stream("c", value=Json(Ride)).map_values(lambda ride: ride.prize)  # refused: a misspelt field
app.stream("d", nome="d")  # refused: a misspelt option
app.table("e", pattern="e-.*")  # refused: an option of streams
