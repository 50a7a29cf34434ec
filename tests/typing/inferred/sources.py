"""What ``stream``, ``table`` and ``global_table`` infer from serdes."""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict, assert_type

from tests.typing.rides import LongRide, Ride

from millstream import App, Stream, Table
from millstream.dsl.global_table import GlobalTable
from millstream.schemas import Avro, SchemaRegistry
from millstream.serdes import FLOAT64, INT64, JSON, RAW, READABLE, TEXT, Json, MessagePack


@dataclasses.dataclass
class Point:
    """A position."""

    x: int
    y: int


class Options(TypedDict):
    """A dict with known fields."""

    color: str


class Upper:
    """A serde of the user's own."""

    name = "upper"

    def encode(self, text: str) -> bytes:
        """Return the text in capitals."""
        return text.upper().encode()

    def decode(self, data: bytes) -> str:
        """Return the text."""
        return data.decode()


app = App("sources")

# Without serdes keys are text and values are plain JSON.
assert_type(app.stream("a1"), Stream[str, Any])
assert_type(app.table("a2"), Table[str, Any])
assert_type(app.global_table("a3"), GlobalTable[str, Any])
assert_type(app.stream("a4", value=None), Stream[str, Any])

# A type is the type of the values.
assert_type(app.stream("b1", value=Ride), Stream[str, Ride])
assert_type(app.stream("b2", key=int, value=str), Stream[int, str])
assert_type(app.table("b3", key=bytes, value=float), Table[bytes, float])
assert_type(app.global_table("b4", value=Ride), GlobalTable[str, Ride])
assert_type(app.stream("b5", value=Point), Stream[str, Point])
assert_type(app.stream("b6", value=Options), Stream[str, Options])
assert_type(app.stream("b7", value=list[Ride]), Stream[str, list[Ride]])
assert_type(app.stream("b8", value=dict[str, int]), Stream[str, dict[str, int]])
assert_type(app.stream("b9", value=tuple[int, str]), Stream[str, tuple[int, str]])

# So is the type of a serde.
assert_type(app.stream("c1", key=TEXT, value=RAW), Stream[str, bytes])
assert_type(app.stream("c2", key=INT64, value=FLOAT64), Stream[int, float])
assert_type(app.stream("c3", value=Json(Ride)), Stream[str, Ride])
assert_type(app.stream("c4", value=MessagePack(list[int])), Stream[str, list[int]])
assert_type(app.stream("c5", value=MessagePack()), Stream[str, Any])
assert_type(app.stream("c6", value=JSON), Stream[str, Any])
assert_type(app.stream("c7", value=Json(Ride | int)), Stream[str, Any])
assert_type(app.stream("c8", value=Upper()), Stream[str, str])
app.stream("c9", key=READABLE)

# And of a serde with a schema registry.


def registered(registry: SchemaRegistry, schema: str) -> None:
    """Read Avro."""
    assert_type(app.stream("g1", value=Avro(schema, registry, type=Ride)), Stream[str, Ride])
    assert_type(app.stream("g2", value=Avro(schema, registry)), Stream[str, Any])


# Functions for timestamps get the declared types.
assert_type(app.stream("d1", value=Ride, timestamp=lambda ride: ride.pickup_at), Stream[str, Ride])
assert_type(app.stream("d2", value=Ride, timestamp=lambda key, ride: ride.pickup_at), Stream[str, Ride])
assert_type(app.table("d3", value=Ride, timestamp=lambda key, ride, context: context.offset), Table[str, Ride])
assert_type(app.stream("d5", key=int, timestamp=lambda value: value["at"]), Stream[int, Any])
assert_type(app.stream("d4", value=Ride, timestamp="append", idle_after="10 s", name="d"), Stream[str, Ride])
assert_type(app.stream(pattern="e-.*", value=Ride, on_invalid="skip"), Stream[str, Ride])

# A stream of a subtype is a stream of the type; a bare handle is one of Any.
rides: Stream[str, Ride] = app.stream("f1", value=LongRide)
anything: Stream = app.stream("f2", key=int, value=Ride)
assert_type(anything, Stream[Any, Any])
