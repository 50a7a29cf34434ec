from typing import Any

import pytest

from millstream import App, Config
from millstream.errors import InvalidNameError, ProcessingError
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


def test_the_topic_may_be_computed_and_is_made_when_it_is_named_first() -> None:
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


def test_a_fixed_topic_with_a_wrong_name_is_refused_at_once() -> None:
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
def test_what_cannot_be_encoded_names_the_half_and_the_serde(key: object, value: object, message: str) -> None:
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


def test_a_record_too_large_for_its_topic_meets_the_policy_and_not_the_broker() -> None:
    app = App("test", config=Config(on_error="skip"))
    app.stream("in", value=int).map_values(lambda n: "x" * n).to("out")
    with TestDriver(app) as driver:
        driver.topic("in").pipe(1, 2_000_000, 2)
        assert driver.topic("out").read_values() == ["x", "xx"]


class Textual:
    """A serde that gives text where it should give bytes."""

    name = "textual"

    def encode(self, item: object) -> bytes:
        return str(item)  # type: ignore[return-value]

    def decode(self, data: bytes) -> str:
        return data.decode()


def test_a_serde_that_gives_no_bytes_is_an_error_of_the_record() -> None:
    app = App("test")
    app.stream("n", value=int).to("out", value=Textual())
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match="serde textual encodes to str, not to bytes"):
        driver.topic("n").pipe(1)
