"""Final results: each window is forwarded once, when it has closed."""

import pytest

from millstream import App, session, sliding, tumbling, unlimited
from millstream.errors import DefinitionError
from millstream.testing import TestDriver
from millstream.windows import Windows


@pytest.mark.parametrize(
    ("windows", "closing", "expected"),
    [
        (tumbling("10 ms", grace="5 ms"), 15, [("a 0-10", 2)]),
        (sliding("10 ms", grace="5 ms"), 16, [("a 0-10", 2)]),
        (session(gap="10 ms", grace="5 ms"), 20, [("a 1-4", 2)]),
    ],
    ids=["tumbling", "sliding", "session"],
)
def test_a_window_is_forwarded_once_when_it_has_closed(
    windows: Windows, closing: int, expected: list[tuple[str, int]]
) -> None:
    app = App("test")
    counts = app.stream("in", value=str).group_by_key().windowed_by(windows).emit("final").count()
    counts.to_stream(lambda window, _: f"{window.key} {window.start}-{window.end}").to("out")
    with TestDriver(app) as driver:
        for timestamp in (1, 4, closing - 1):
            driver.topic("in").pipe("x", key="a", timestamp=timestamp)
        before = driver.topic("out").read_key_values()
        driver.topic("in").pipe("x", key="b", timestamp=closing)
        at_close = driver.topic("out").read_key_values()
        driver.topic("in").pipe("x", key="a", timestamp=2)
        assert (before, at_close[:1], driver.topic("out").read_key_values()) == ([], expected, [])


def test_an_unlimited_window_never_closes() -> None:
    grouped = App("test").stream("in").group_by_key().windowed_by(unlimited())
    with pytest.raises(DefinitionError, match="never closes"):
        grouped.emit("final").count()


def test_other_emit_modes_are_rejected() -> None:
    with pytest.raises(DefinitionError, match="emit"):
        App("test").stream("in").group_by_key().windowed_by(tumbling("1 s")).emit("sometimes")  # type: ignore[arg-type]
