import pytest

from millstream import App
from millstream.errors import DefinitionError


def test_a_topic_is_read_once() -> None:
    app = App("test")
    app.stream("a", "b")
    app.stream("b", "c")
    with pytest.raises(DefinitionError, match="topic 'b' is read by 'a-b' and by 'b-c'; read it once") as caught:
        _ = app.plan
    assert caught.value.facts == {"topic": "b"}


def test_a_topic_is_not_both_stream_and_table() -> None:
    app = App("test")
    app.stream("users", name="clicks")
    app.table("users")
    with pytest.raises(DefinitionError, match=r"topic 'users' is read by 'clicks' and by 'users'; .*\.to_stream\(\)"):
        _ = app.plan


def test_a_topology_needs_a_source() -> None:
    with pytest.raises(DefinitionError, match=r"the topology has no source; start with app.stream\(topic\)"):
        _ = App("test").plan


def test_streams_and_tables_of_another_app_are_refused() -> None:
    one, two = App("one"), App("two")
    with pytest.raises(
        DefinitionError, match=r"merge wants to read a stream_source .*another app; connect apps by a topic"
    ):
        one.stream("a").merge(two.stream("b"))
    with pytest.raises(DefinitionError, match="stream_table_join wants to read a table_source"):
        one.stream("a").join(two.table("b"), lambda left, right: left)
