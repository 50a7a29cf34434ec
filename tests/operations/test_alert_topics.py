"""Topics of alerts can be written by anyone: what is not an event is left out, and reading them is bounded."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.serve.conftest import serving

from millstream.alerts.events import AlertEvent, alerts_topic, silences_topic
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.operations.alert_topics import ReadBudget, add_silence, current_alerts, recent_events, silences_of

DEEP = b'{"unknown":' + b"[" * 5000 + b"]" * 5000 + b"}"


def event(key: str, status: str = "firing", summary: str = "") -> bytes:
    fields = {"alert": "hot", "app": "heat", "key": key, "status": status, "labels": {}, "since": 1, "summary": summary}
    return msgspec.json.encode(msgspec.convert(fields, AlertEvent))


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    log = EmbeddedLog(tmp_path)
    for topic in (alerts_topic("heat"), silences_topic("heat")):
        log.create_topic(topic, TopicConfig(partitions=1))
    return log


def write(log: EmbeddedLog, topic: str, *values: tuple[bytes | None, bytes | None]) -> None:
    keys = [key for key, _ in values]
    log.append([Output(topic, 0, block_of(keys, [value for _, value in values], list(range(len(values)))))])


def test_the_last_event_of_each_alert_counts_in_topics_longer_than_a_step(log: EmbeddedLog) -> None:
    old = [(b"hot/%d" % number, event(str(number))) for number in range(1200)]
    write(log, alerts_topic("heat"), *old, (b"hot/7", event("7", "resolved")), (b"hot/8", None))
    alerts = {alert.key: alert.status for alert in current_alerts(log, "heat")}
    assert len(alerts) == 1199
    assert (alerts["7"], alerts["0"], alerts.get("8")) == ("resolved", "firing", None)
    assert [alert.key for alert in recent_events(log, "heat", 3)] == ["7", "1199"]  # one of them is a tombstone
    log.close()


def test_what_another_program_has_written_is_left_out(log: EmbeddedLog) -> None:
    hostile = [b"", b"[1]", b"\xff", DEEP, b'{"id":"x","matchers":[],"starts":1,"ends":2}']
    for topic in (alerts_topic("heat"), silences_topic("heat")):
        write(log, topic, *((b"k%d" % number, value) for number, value in enumerate(hostile)))
    write(log, alerts_topic("heat"), (b"hot/a", event("a")))
    silence = add_silence(log, "heat", ["alertname=hot"], 1000)
    assert [alert.key for alert in current_alerts(log, "heat")] == ["a"]
    assert silences_of(log, "heat") == [silence]
    log.close()


def test_a_budget_ends_the_reading_and_the_newest_events_are_read_first(log: EmbeddedLog) -> None:
    for number in range(40):
        write(log, alerts_topic("heat"), (b"hot/%d" % number, event(str(number), summary="x" * 100_000)))
    budget = ReadBudget(size=2_000_000, seconds=60)
    assert {alert.key for alert in current_alerts(log, "heat", budget)} == {str(number) for number in range(24, 40)}
    assert budget.is_spent
    assert len(current_alerts(log, "heat", ReadBudget(size=100_000_000, seconds=60))) == 40
    late = ReadBudget(size=100_000_000, seconds=-1)
    assert (current_alerts(log, "heat", late), late.is_spent) == ([], True)
    log.close()


def test_the_page_and_the_api_say_that_not_all_events_were_read(log: EmbeddedLog, tmp_path: Path) -> None:
    write(log, alerts_topic("heat"), (b"hot/a", event("a")))
    for number in range(40):
        write(log, alerts_topic("heat"), (b"big/%d" % number, b'"' + b"x" * 1_000_000 + b'"'))
    log.close()
    served = serving(tmp_path)
    assert not served.get("/api/alerts")["is_complete"]
    assert "There are too many events" in served.page("/alerts")
    served.site.watch.stop()
    served.site.directory.close()
