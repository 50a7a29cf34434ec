import pytest

from millstream import App
from millstream.errors import DefinitionError


def test_reading_a_topic_twice_is_rejected() -> None:
    app = App("test")
    app.stream("a", "b")
    app.stream("b", "c")
    with pytest.raises(DefinitionError, match="topic 'b' is read by 'a-b' and by 'b-c'; read it once") as caught:
        _ = app.plan
    assert caught.value.facts == {"topic": "b"}


def test_reading_a_topic_as_stream_and_table_is_rejected() -> None:
    app = App("test")
    app.stream("users", name="clicks")
    app.table("users")
    with pytest.raises(DefinitionError, match=r"topic 'users' is read by 'clicks' and by 'users'; .*\.to_stream\(\)"):
        _ = app.plan


def test_a_topology_needs_a_source() -> None:
    with pytest.raises(DefinitionError, match=r"the topology has no source; start with app.stream\(topic\)"):
        _ = App("test").plan


def test_streams_and_tables_of_another_app_are_rejected() -> None:
    app, other_app = App("one"), App("two")
    with pytest.raises(
        DefinitionError, match=r"merge cannot read a stream_source of another app; connect apps by a topic"
    ):
        app.stream("a").merge(other_app.stream("b"))
    with pytest.raises(DefinitionError, match="stream_table_join cannot read a table_source"):
        app.stream("a").join(other_app.table("b"), lambda left, right: left)
