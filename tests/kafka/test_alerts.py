"""Alerts on Kafka: events and what was sent are in topics, so that another host with an empty disk repeats nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.kafka.alerting import app, slack
from tests.servers.receiver import receiver
from tests.waiting import wait_until

from millstream.foundation.storage import close_environments
from millstream.operations.alert_topics import current_alerts
from millstream.testing.kafka import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
SECONDS = 90.0


def test_another_host_goes_on_with_the_notifications(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver() as chat:
        monkeypatch.setattr(slack, "url", chat.url)
        for number, host in enumerate(("first", "second"), start=1):
            monkeypatch.setattr(app, "broker_url", cluster.url)
            monkeypatch.setattr(app, "data_dir", tmp_path / host)
            app.create_topics()
            with app.producer(value=int) as producer:
                producer.send("kafka-heat", 95, key=f"s{number}")
            run = app.start()
            wait_until(lambda: len(chat.received) == number)  # noqa: B023 - called within the iteration
            run.stop()
            run.wait()
            close_environments(tmp_path / host)
        texts = [json.loads(received.body)["text"] for received in chat.received]
    assert [text.partition("\n")[0] for text in texts] == ["[FIRING:1] hot", "[FIRING:2] hot"]
    assert "s1 has 95" in texts[1]
    assert "s2 has 95" in texts[1]
    assert {event.id for event in current_alerts(app.broker, app.id)} == {"hot/s1", "hot/s2"}
