import pickle
from collections.abc import Callable
from typing import Any

import pytest

from millstream import App, tumbling
from millstream.errors import NoSuchVerbError

ASKED: dict[str, tuple[Callable[[App], Any], str, str]] = {
    "table": (lambda app: app.table("t"), "select_key", r"a Table has no select_key\(\); .*\.to_stream\(\)"),
    "stream": (lambda app: app.stream("s"), "to_stream", r"a Stream has no to_stream\(\); .*\.to_table\(\)"),
    "grouping": (
        lambda app: app.table("t").group_by(str),
        "windowed_by",
        r"a GroupedTable has no windowed_by\(\); CogroupedStream and GroupedStream have it",
    ),
    "windows": (
        lambda app: app.stream("s").group_by_key().windowed_by(tumbling("1 s")),
        "cogroup",
        r"CogroupedStream and GroupedStream have it",
    ),
    "typo": (lambda app: app.stream("s"), "fliter", r"did you mean filter\(\)\?"),
    "nonsense": (lambda app: app.stream("s").group_by_key(), "xyzzy", r"it has .*aggregate"),
}


@pytest.mark.parametrize("case", ASKED)
def test_a_verb_that_is_not_there_is_explained(case: str) -> None:
    handle, verb, message = ASKED[case]
    with pytest.raises(NoSuchVerbError, match=message):
        getattr(handle(App("test")), verb)


def test_asking_whether_there_is_a_verb_works_as_in_python() -> None:
    stream = App("test").stream("s")
    assert not hasattr(stream, "xyzzy")
    assert hasattr(stream, "filter")
    with pytest.raises(AttributeError, match="_secret"):
        getattr(stream, "_secret")  # noqa: B009 - a type checker knows that it is not there
    assert pickle.loads(pickle.dumps(tumbling("1 s"))) == tumbling("1 s")
