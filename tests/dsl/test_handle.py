import pickle
from collections.abc import Callable
from typing import Any

import pytest

from millstream import App, tumbling
from millstream.errors import NoSuchVerbError

UNKNOWN_VERBS: dict[str, tuple[Callable[[App], Any], str, str]] = {
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


@pytest.mark.parametrize("case", UNKNOWN_VERBS)
def test_the_error_for_an_unknown_verb_suggests_an_alternative(case: str) -> None:
    handle, verb, message = UNKNOWN_VERBS[case]
    with pytest.raises(NoSuchVerbError, match=message):
        getattr(handle(App("test")), verb)


def test_hasattr_and_private_attributes_behave_as_usual() -> None:
    stream = App("test").stream("s")
    assert not hasattr(stream, "xyzzy")
    assert hasattr(stream, "filter")
    with pytest.raises(AttributeError, match="_secret"):
        getattr(stream, "_secret")  # noqa: B009 - a direct access would fail type checking
    assert pickle.loads(pickle.dumps(tumbling("1 s"))) == tumbling("1 s")
