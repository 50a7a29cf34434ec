"""Rides per zone and minute with Quix Streams, exactly once; one of two processes of a consumer group.

COMMIT_SECONDS is the commit interval, which is how long a reader waits; Quix's default is 5.
"""

from __future__ import annotations

import os

from quixstreams import Application

settings = os.environ
app = Application(
    settings["BOOTSTRAP"],
    consumer_group=settings["GROUP"],
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    commit_interval=float(settings["COMMIT_SECONDS"]),
    state_dir=settings["STATE_DIR"],
    loglevel="WARNING",
)
rides = app.dataframe(app.topic(settings["SOURCE"], value_deserializer="json"))
rides = rides[rides["amount"] > 1.0].group_by("zone")
# do not log late rides
windows = rides.tumbling_window(60_000, grace_ms=int(settings["GRACE_MS"]), on_late=lambda *_: False)
counts = windows.count().current()
counts = counts.apply(
    lambda value, key, _timestamp, _headers: {"zone": key, "start": value["start"], "count": value["value"]},
    metadata=True,
)
counts.to_topic(app.topic(settings["TARGET"], key_serializer="json", value_serializer="json"))

if __name__ == "__main__":
    app.run()
