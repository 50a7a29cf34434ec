"""Classes of a script or notebook are the same in another process: their fields, names, defaults and methods."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from millstream import App
from millstream.batch.app_spec import AppSpec
from millstream.errors import DefinitionError
from millstream.spark.sending import pickled_plan

CLASSES = """
import dataclasses, enum, sys
from typing import ClassVar, Generic, NamedTuple, NotRequired, TypedDict, TypeVar
import msgspec
from millstream.spark.by_value import dumps
T = TypeVar("T")
class Colour(enum.Enum):
    RED = 1
class Base(msgspec.Struct, rename="camel", tag=True):
    first_part: int
    def double(self): return self.first_part * 2
class Part(Base, kw_only=True):
    LIMIT: ClassVar[int] = 3
    sizes: list[int] = []
    colour: "Colour" = Colour.RED
    parts: "list[Part]" = msgspec.field(default_factory=lambda: [Part(first_part=0, parts=[])], name="PARTS")
    price: "Price | None" = None
    seen: int = 0
    def __post_init__(self): self.seen = self.first_part + 100
    @property
    def next(self): return Part(first_part=self.first_part + 1)
    @classmethod
    def made(cls): return cls(first_part=9)
class Price(msgspec.Struct, frozen=True, array_like=True):
    amount: float = 2.5
class Box(msgspec.Struct, Generic[T]):
    item: T
    def __eq__(self, other): return "its own"
@dataclasses.dataclass(slots=True)
class Order:
    price: "Price"
    before: "Order | None" = None
class Row(TypedDict):
    price: "Price"
    note: NotRequired[str]
class Pair(NamedTuple):
    price: "Price"
    number: int = 1
constant = Price(9.0)
def check():
    def show(text, kind):
        try:
            value = msgspec.json.decode(text, type=kind)
        except msgspec.ValidationError as error:
            print(error)
        else:
            print(repr(value), msgspec.json.encode(value))
            return value
    part = show('{"type": "Part", "firstPart": 1, "PARTS": [{"type": "Part", "firstPart": 5}], "price": [3.5]}', Part)
    print(part.next, part.double(), part == Part.made(), Part.made() == Part.made(), Part.LIMIT, Part.__qualname__)
    show('{"type": "Part", "firstPart": "x"}', Part)
    show('{"type": "Part"}', Part)
    show('{"item": [1.5]}', Box[Price])
    print(Box(1) == Box(2), hash(constant) == hash(Price(9.0)))
    show('{"price": [1.5], "before": {"price": [2]}}', Order)
    show('{"price": [1.5]}', Row)
    show('{"note": "without price"}', Row)
    show('[[1.5]]', Pair)
check()
sys.stdout.flush()
sys.stdout.buffer.write(b"SENT" + dumps(check))
"""
RECEIVER = "import sys; from millstream.spark.by_value import loads; loads(sys.stdin.buffer.read())[0]()"


def test_classes_of_a_script_decode_encode_and_behave_the_same_in_another_process() -> None:
    sender = subprocess.run([sys.executable, "-"], input=CLASSES.encode(), capture_output=True, check=True, timeout=60)
    expected, _, sent = sender.stdout.partition(b"SENT")
    receiver = subprocess.run([sys.executable, "-c", RECEIVER], input=sent, capture_output=True, check=True, timeout=60)
    assert expected.count(b"\n") >= 10
    assert receiver.stdout.decode() == expected.decode()


def spec_of(app: App) -> AppSpec:
    return AppSpec(id=app.id, config=app.config, data_dir=app.data_dir, plan=app.plan, deliveries={})


def test_a_value_that_cannot_be_sent_is_refused_with_its_name_and_its_function() -> None:
    lock = threading.Lock()

    def price_of(value: int) -> int:
        with lock:
            return value

    def outer(value: int) -> int:
        return price_of(value)

    app = App("locked")
    app.stream("in", value=int).map_values(outer, name="priced").to("out")
    with pytest.raises(DefinitionError) as caught:
        pickled_plan(spec_of(app))
    message = str(caught.value)
    assert "price_of() in 'priced' uses 'lock', a lock: cannot pickle" in message
    assert "create it inside the function, or write the app to a file and import it" in message
    assert "%%writefile app.py" in message


def test_a_function_that_uses_its_own_app_can_be_sent() -> None:
    app = App("itself")
    app.stream("in", value=int).filter(lambda value: value > len(app.id)).to("out")
    assert pickled_plan(spec_of(app))
