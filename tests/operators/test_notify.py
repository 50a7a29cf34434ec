"""Notifications: groups, silences and restarts; tests/alerts compares them with Alertmanager."""

from __future__ import annotations

from typing import Any

import pytest
from tests.alerts.sample_events import sample_event

from millstream import App
from millstream.alerts.groups import Route, flush, insert
from millstream.alerts.silences import Silence
from millstream.errors import DefinitionError
from millstream.testing import TestDriver
from millstream.testing.connectors import MemorySink


def heat(*sinks: Any, **options: Any) -> App:
    app = App("test")
    alerts = app.stream("heat", value=int).alert(
        "hot", when=lambda celsius: celsius > 90, clock="wall", summary="{key}: {value} °C"
    )
    alerts.notify(*(sinks or [MemorySink()]), **{"name": "people", "group_wait": "10 s", **options})
    return app


def texts(driver: TestDriver, sink: str = "people") -> list[str]:
    return [str(value) for value in driver.sink(sink).read_values()]


def test_alerts_of_a_group_are_one_notification() -> None:
    with TestDriver(heat()) as driver:
        driver.topic("heat").pipe(95, key="b")
        driver.topic("heat").pipe(96, key="a")
        driver.advance_wall_clock("9 s")
        assert texts(driver) == []
        driver.advance_wall_clock("1 s")
        assert texts(driver) == ["[FIRING:2] hot\nfiring: a: 96 °C\nfiring: b: 95 °C"]
        driver.topic("heat").pipe(20, key="a")
        driver.advance_wall_clock("5 min")
        assert texts(driver) == ["[FIRING:1] hot\nresolved: a: 96 °C\nfiring: b: 95 °C"]


def test_each_key_can_be_its_own_group() -> None:
    with TestDriver(heat(group_by=["..."]), partitions=2) as driver:
        driver.topic("heat").pipe(95, key="b")
        driver.topic("heat").pipe(96, key="a")
        driver.advance_wall_clock("10 s")
        assert sorted(text.splitlines()[1] for text in texts(driver)) == ["firing: a: 96 °C", "firing: b: 95 °C"]


def test_resolved_alerts_are_left_out_if_they_are_not_wanted() -> None:
    with TestDriver(heat(send_resolved=False)) as driver:
        driver.topic("heat").pipe(95, key="a")
        driver.advance_wall_clock("10 s")
        assert len(texts(driver)) == 1
        driver.topic("heat").pipe(20, key="a")
        driver.advance_wall_clock("5 min")
        assert texts(driver) == []
        driver.topic("heat").pipe(95, key="a")
        driver.advance_wall_clock("5 min")
        assert texts(driver) == ["[FIRING:1] hot\nfiring: a: 95 °C"], "it is known that the alert was resolved"


def test_several_sinks_get_the_same_notifications() -> None:
    with TestDriver(heat(MemorySink(), MemorySink())) as driver:
        driver.topic("heat").pipe(95, key="a")
        driver.advance_wall_clock("10 s")
        assert texts(driver) == texts(driver, "people-2") != []


def test_silenced_alerts_are_notified_when_the_silence_is_over() -> None:
    with TestDriver(heat()) as driver:
        silence = Silence(id="1", matchers=('key=~"a|b"',), starts=0, ends=60_000)
        driver.topic("test.silences").pipe(silence, key="1")
        driver.topic("heat").pipe(95, key="a")
        driver.topic("heat").pipe(95, key="c")
        driver.advance_wall_clock("10 s")
        assert texts(driver) == ["[FIRING:1] hot\nfiring: c: 95 °C"]
        driver.advance_wall_clock("5 min")
        assert texts(driver) == ["[FIRING:2] hot\nfiring: a: 95 °C\nfiring: c: 95 °C"]


def test_alerts_of_several_conditions_can_be_one_group() -> None:
    app = App("test")
    stream = app.stream("heat", value=int)
    hot, cold = (
        stream.alert(name, when=when, clock="wall", labels={"hall": "A"})
        for name, when in (("hot", lambda celsius: celsius > 90), ("cold", lambda celsius: celsius < 0))
    )
    hot.merge(cold).notify(MemorySink(), name="people", group_by=["hall"], group_wait="10 s")
    with TestDriver(app) as driver:
        with driver.holding():
            driver.topic("heat").pipe(95, key="a")
            driver.topic("heat").pipe(-5, key="b")
        driver.advance_wall_clock("10 s")
        [notification] = driver.sink("people").read_values()
    assert [alert.labels["alertname"] for alert in notification.alerts] == ["cold", "hot"]


def test_a_group_without_a_wait_is_notified_at_once() -> None:
    with TestDriver(heat(group_wait="0 s")) as driver:
        driver.topic("heat").pipe(95, key="a")
        assert texts(driver) == ["[FIRING:1] hot\nfiring: a: 95 °C"]


def test_an_alert_that_fired_long_ago_does_not_wait() -> None:
    route = Route(receiver="people", group_wait=30_000)
    group = insert(None, sample_event("a", fired=0), route, now=20_000)
    assert group.due == 50_000
    group = insert(group, sample_event("b", fired=0), route, now=30_001)
    assert group.due == 30_001
    flushed, message = flush(group, route, 30_001, [])
    assert message is not None
    assert len(message.alerts) == 2
    assert flushed is not None
    assert flushed.due == 330_001


def test_a_group_without_alerts_ends() -> None:
    route = Route(receiver="people")
    group = insert(None, sample_event("a", fired=0, resolved=1), route, now=0)
    assert flush(group, route, 30_000, []) == (None, None)


@pytest.mark.parametrize("matcher", ["hall", "=A", "hall=~(", "1hall=A"])
def test_a_wrong_matcher_is_refused(matcher: str) -> None:
    with pytest.raises(DefinitionError, match=r"matcher|pattern"):
        Silence(id="1", matchers=(matcher,), starts=0, ends=1)


@pytest.mark.parametrize(
    ("matcher", "matches"),
    [("hall=A", True), ("hall=B", False), ("hall!=B", True), ('hall=~"A|B"', True), ("hall=~", False), ("x=", True)],
)
def test_matchers_compare_labels(matcher: str, matches: bool) -> None:
    silence = Silence(id="1", matchers=(matcher,), starts=0, ends=1)
    assert silence.matches({"hall": "A"}) is matches


def test_wrong_notifications_are_refused() -> None:
    app = App("test")
    hot, cold = (app.stream("heat").alert(name, when=bool) for name in ("hot", "cold"))
    with pytest.raises(DefinitionError, match="no sink"):
        hot.notify()
    with pytest.raises(DefinitionError, match="no name"):
        hot.merge(cold).notify(MemorySink())
    with pytest.raises(DefinitionError, match="is text"):
        hot.notify(MemorySink(), group_by="hall")
    with pytest.raises(DefinitionError, match="group_interval='0 s'"):
        hot.notify(MemorySink(), group_interval="0 s")


def test_an_alert_that_fires_after_its_group_was_resolved_waits_for_group_wait_only() -> None:
    """Alertmanager removes a group without alerts within 30 seconds, long before it would be looked at again."""
    with TestDriver(heat(group_interval="1 h")) as driver:
        driver.topic("heat").pipe(95, key="a")
        driver.advance_wall_clock("10 s")
        driver.topic("heat").pipe(20, key="a")
        driver.advance_wall_clock("1 h")
        assert len(texts(driver)) == 2
        driver.advance_wall_clock("1 min")
        driver.topic("heat").pipe(95, key="a")
        driver.advance_wall_clock("10 s")
        assert texts(driver) == ["[FIRING:1] hot\nfiring: a: 95 °C"]
