from contextlib import closing
from pathlib import Path

import pytest

from millstream import App, Config
from millstream.errors import DefinitionError, InvalidNameError, UnknownTableError
from millstream.testing import TestDriver


def test_the_same_topics_return_the_same_stream_in_any_order() -> None:
    app = App("test")
    assert app.stream("a") is app.stream("a")
    assert app.stream("b", "c") is app.stream("c", "b")
    assert app.stream("a") is not app.stream("b", "c")


def test_reading_a_topic_as_a_table_twice_is_rejected() -> None:
    app = App("test")
    app.table("t")
    with pytest.raises(DefinitionError, match="topic 't' is read as a table twice; keep the first"):
        app.table("t")


def test_a_stream_requested_twice_is_read_once() -> None:
    app = App("test")
    app.stream("n", value=int).to("one")
    app.stream("n").to("two")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1)
        assert (driver.topic("one").read_values(), driver.topic("two").read_values()) == ([1], [1])


def test_a_stream_without_topics_is_rejected() -> None:
    with pytest.raises(DefinitionError, match=r"stream\(\) needs topics or a pattern; for example"):
        App("test").stream()


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 201])
def test_invalid_names_of_apps_and_topics_are_rejected_immediately(name: str) -> None:
    with pytest.raises(InvalidNameError, match="app name"):
        App(name)
    with pytest.raises(InvalidNameError, match="topic name"):
        App("test").stream(name)
    with pytest.raises(InvalidNameError, match="topic name"):
        App("test").table(name)


def test_an_unsupported_type_is_rejected_where_it_is_declared() -> None:
    with pytest.raises(DefinitionError, match="cannot be used as a type of keys or values"):
        App("test").stream("n", value=object)


def test_data_dir_and_broker_come_from_the_argument_the_environment_or_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MILLSTREAM_DATA_DIR", raising=False)
    monkeypatch.delenv("MILLSTREAM_BROKER", raising=False)
    monkeypatch.chdir(tmp_path)
    assert (App("test").data_dir, App("test").broker_url) == (tmp_path / "millstream-data", None)
    monkeypatch.setenv("MILLSTREAM_DATA_DIR", str(tmp_path / "from-env"))
    monkeypatch.setenv("MILLSTREAM_BROKER", "kafka://elsewhere")
    assert (App("test").data_dir, App("test").broker_url) == (tmp_path / "from-env", "kafka://elsewhere")
    app = App("test", data_dir="given", broker="kafka://here")
    assert (app.data_dir, app.broker_url) == (tmp_path / "given", "kafka://here")


def test_an_app_records_its_module() -> None:
    assert App("test").defined_in == __name__
    assert repr(App("test")) == "<App test>"


def test_an_app_that_never_ran_has_no_tables(tmp_path: Path) -> None:
    app = App("test", data_dir=tmp_path)
    app.stream("n").group_by_key().count()
    with pytest.raises(UnknownTableError, match=r"app 'test' has not run on .*; apps there: none yet"):
        _ = app.tables


def test_topics_can_be_created_before_the_first_run_and_keep_all_records_by_default(tmp_path: Path) -> None:
    app = App("shop", data_dir=tmp_path, config=Config(partitions=3))
    app.stream("orders").group_by_key().count(name="counts").to_stream().to("totals")
    assert app.create_topics() == ["orders", "totals"]
    assert app.create_topics() == []
    with closing(app.broker) as broker:
        for topic in ("orders", "totals"):
            config = broker.topic(topic).config
            assert (config.partitions, config.retention_ms, config.retention_bytes) == (3, None, None)


def test_stopping_an_app_that_was_not_started_has_no_effect() -> None:
    app = App("test")
    app.stop()
    assert app.wait(0)


def test_reading_a_topic_with_two_serdes_is_rejected() -> None:
    app = App("test")
    app.stream("a", value=int)
    with pytest.raises(DefinitionError, match="topic 'a' is read with value=json:int and with value=str"):
        app.stream("a", value=str)


def test_the_same_pattern_returns_the_same_stream_and_invalid_patterns_are_rejected() -> None:
    app = App("test")
    assert app.stream(pattern="in-.*") is app.stream(pattern="in-.*")
    with pytest.raises(DefinitionError, match="takes topics or a pattern, not both"):
        app.stream("n", pattern="in-.*")
    with pytest.raises(DefinitionError, match=r"pattern 'in-\(' is not a regular expression"):
        app.stream(pattern="in-(")


def test_a_pattern_that_matches_a_topic_read_by_name_is_rejected() -> None:
    app = App("test")
    app.stream(pattern="in-.*").to("out")
    app.table("in-1")
    with pytest.raises(DefinitionError, match=r"topic 'in-1' is read by 'in-\._' and by 'in-1'"):
        _ = app.plan
