"""An app whose alerts go to a chat; workers import it."""

from __future__ import annotations

from millstream import App, Config
from millstream.connectors.slack import Slack

app = App("kafka-alerts", config=Config(partitions=2))
hot = app.stream("kafka-heat", value=int).alert(
    "hot", when=lambda celsius: celsius > 90, clock="wall", summary="{key} has {value}"
)
slack = Slack("http://127.0.0.1:1/hook", text="{value}")
hot.notify(
    slack,
    name="team",
    group_wait="200 ms",
    group_interval="1 s",
    repeat_interval="1 h",
)
