"""Alerts on Spark: a notification reaches its sink once, and rules are evaluated where no dashboard runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from millstream import App, Config
from millstream.operations.alert_topics import current_alerts
from millstream.operations.rules import Rule, RuleStore
from millstream.testing.connectors import MemorySink

pytestmark = pytest.mark.spark
SECONDS = 90.0
sink = MemorySink()
app = App("heat", config=Config(partitions=2))
hot = app.stream("heat", value=int).alert("hot", when=lambda celsius: celsius > 90, clock="wall")
hot.notify(sink, name="people", group_wait="200 ms", group_interval="1 s", repeat_interval="1 h")


def wait_until(condition: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(int(SECONDS / 0.1)):
        if condition():
            return
        waiting.wait(0.1)
    pytest.fail("it did not happen")


def test_a_run_notifies_once_over_a_restart_and_evaluates_rules(tmp_path: Path) -> None:
    app.data_dir = tmp_path
    app.create_topics()
    RuleStore(tmp_path).put(Rule(name="idle", app="heat", what="lag", above=False, limit=1))
    with app.producer(value=int) as producer:
        producer.send("heat", 95, key="s1")
    run = app.start()
    wait_until(lambda: len(sink.records) == 1)
    wait_until(lambda: {event.id for event in current_alerts(app.broker, "heat")} == {"hot/s1", "idle"})
    run.stop()
    run.wait()
    with app.producer(value=int) as producer:
        producer.send("heat", 96, key="s2")
    run = app.start()
    wait_until(lambda: len(sink.records) == 2)
    run.stop()
    run.wait()
    assert [[alert.labels["key"] for alert in record.value.alerts] for record in sink.records] == [["s1"], ["s1", "s2"]]
    assert app.broker.topic("heat.alerts").config.compact
