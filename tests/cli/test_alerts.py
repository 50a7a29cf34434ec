from __future__ import annotations

import json

import msgspec
import pytest
from tests.alerts.sample_events import sample_event
from tests.cli.conftest import Call, Fill

HOUR_MS = 3_600_000


@pytest.fixture
def alerts(fill: Fill) -> None:
    firing, resolved = sample_event("a", fired=HOUR_MS), sample_event("b", fired=0, resolved=HOUR_MS)
    rows = [(event.id.encode(), msgspec.json.encode(event), HOUR_MS) for event in (firing, resolved)]
    fill("test.alerts", *rows, (b"hot/c", None, HOUR_MS), (None, b"not an event", HOUR_MS))


def test_active_alerts_are_listed_and_all_events_with_history(call: Call, alerts: None) -> None:
    listed = call("alerts", "list")
    assert [line.split() for line in listed.stdout.splitlines()] == [
        ["APP", "ALERT", "STATUS", "SINCE", "SUMMARY"],
        ["test", "hot/a", "firing", "1970-01-01T01:00:00.000Z", "-"],
    ]
    events = json.loads(call("alerts", "list", "--app", "test", "--history", "--json").stdout)
    assert sorted((event["key"], event["status"]) for event in events) == [("a", "firing"), ("b", "resolved")]


def test_a_silence_is_added_listed_and_expired(call: Call, alerts: None) -> None:
    added = call(
        "alerts", "silence", "alertname=hot", 'key=~"a|b"', "--app", "test", "--for", "2 h", "--comment", "why"
    )
    silence_id = added.stdout.strip()
    [silence] = json.loads(call("alerts", "silences", "--app", "test", "--json").stdout)
    assert (silence["id"], silence["matchers"], silence["comment"]) == (
        silence_id,
        ["alertname=hot", 'key=~"a|b"'],
        "why",
    )
    assert silence["ends"] - silence["starts"] == 2 * HOUR_MS
    assert call("alerts", "expire", silence_id, "--app", "test").stderr == f"silence {silence_id} has ended\n"
    assert call("alerts", "silences", "--app", "test").stderr == "no silences\n"
    assert silence_id in call("alerts", "silences", "--app", "test", "--all").stdout


def test_wrong_silences_are_refused(call: Call, alerts: None) -> None:
    assert "is not a matcher" in call("alerts", "silence", "hot", "--app", "test").stderr
    assert "no silence 'x'" in call("alerts", "expire", "x", "--app", "test").stderr


def test_silences_are_deleted_five_days_after_their_end(call: Call, alerts: None, fill: Fill) -> None:
    old = {"id": "old", "matchers": ["key=a"], "starts": 0, "ends": HOUR_MS}
    fill("test.silences", (b"old", msgspec.json.encode(old), 0), (b"x", b"not a silence", 0))
    assert "old" in call("alerts", "silences", "--app", "test", "--all").stdout
    added = call("alerts", "silence", "key=b", "--app", "test", "--for", "1 h").stdout.strip()
    silences = json.loads(call("alerts", "silences", "--app", "test", "--all", "--json").stdout)
    assert [silence["id"] for silence in silences] == [added]
