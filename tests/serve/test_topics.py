from __future__ import annotations

import re

from tests.serve.conftest import START, Served

from millstream.broker import Output
from millstream.foundation.blocks import block_of


def test_topics_are_listed_with_their_groups_and_lag(served: Served) -> None:
    topics = {topic["topic"]: topic for topic in served.get("/api/topics")}
    assert {"rides", "lines", "vendors", "zones", "ratios", "counts", "rides-app.dead-letters"} <= set(topics)
    assert topics["rides"]["records"] == 121
    assert topics["rides"]["groups"] == [{"group": "rides-app", "lag": 0}]


def test_a_topic_is_created_changed_and_deleted_with_its_name_as_confirmation(own: Served) -> None:
    made = {"topic": "clicks", "partitions": 3, "retention_ms": 60_000}
    assert own.post("/api/topics", made).json() == {"done": "created clicks"}
    assert own.get("/api/topics/clicks")["config"]["retention_ms"] == 60_000
    assert own.post("/api/topics", made).status_code == 409
    assert own.post("/api/topics/clicks/settings", {"retention_ms": None, "partitions": 5}).status_code == 200
    changed = own.get("/api/topics/clicks")
    assert (changed["config"]["retention_ms"], len(changed["partitions"])) == (None, 5)
    assert "nothing was deleted" in own.post("/api/topics/clicks/delete", {"confirm": "other"}).json()["done"]
    assert own.post("/api/topics/clicks/delete", {"confirm": "clicks"}).json() == {"done": "deleted clicks"}
    assert own.client.get("/api/topics/clicks").status_code == 404


def test_the_rate_of_a_topic_needs_two_measurements(own: Served) -> None:
    seconds = iter((0.0, 2.0))
    own.site.rates._clock = lambda: next(seconds)
    own.site.rates.record({"lines": 10})
    assert own.site.rates.of("lines") is None
    own.site.rates.record({"lines": 50})
    assert own.site.rates.of("lines") == 20.0


def test_a_written_record_is_found_by_key_offset_and_expression(own: Served) -> None:
    for number in range(5):
        body = {"key": f"k{number}", "value": {"n": number}, "timestamp": START + number, "headers": {"by": "me"}}
        assert own.post("/api/topics/lines/records", body).status_code == 200
    (record,) = own.get("/api/topics/lines/records", key="k3")["records"]
    assert (record["value"], record["headers"], record["timestamp"]) == ({"n": 3}, [["by", "me"]], START + 3)
    matching = own.get("/api/topics/lines/records", where="value.n >= 1 and not key endswith '4'", start="earliest")
    assert [record["key"] for record in matching["records"]] == ["k1", "k2", "k3"]
    later = own.get("/api/topics/lines/records", start="2026-01-01T06:00:00.003Z")
    assert [record["key"] for record in later["records"]] == ["k3", "k4"]


def test_a_record_is_written_as_text_as_bytes_and_as_a_tombstone(own: Served) -> None:
    for body in ({"value": "plain", "form": "text"}, {"value": "/w==", "form": "base64"}, {"key": "gone"}):
        assert own.post("/api/topics/lines/records", {"partition": 1, **body}).status_code == 200
    records = own.get("/api/topics/lines/records", start="earliest", partition=1)["records"]
    assert [record["value"] for record in records] == ["plain", {"base64": "/w=="}, None]
    refused = own.post("/api/topics/lines/records", {"value": "not base64!", "form": "base64"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "definition")
    assert own.post("/api/topics/lines/records", {"value": 1, "partition": 7}).status_code == 400
    assert own.post("/api/topics/nowhere/records", {"value": 1}).status_code == 404
    assert own.post("/api/topics/lines/records", {"value": "x" * 1_100_000}).status_code == 413


def test_records_are_paged_from_the_newest_without_gaps(served: Served) -> None:
    seen: list[tuple[int, int]] = []
    start = "latest"
    while start is not None:
        page = served.get("/api/topics/rides/records", start=start, direction="older", limit=50)
        seen += [(record["partition"], record["offset"]) for record in page["records"]]
        start = page["next"]
    assert len(seen) == len(set(seen)) == 121


def test_a_large_value_is_truncated_and_marked(own: Served) -> None:
    assert own.post("/api/topics/lines/records", {"value": "x" * 200_000, "form": "text"}).status_code == 200
    (record,) = own.get("/api/topics/lines/records")["records"]
    assert (len(record["value"]), record["bytes"], record["is_cut"]) == (65_536, 200_000, True)


def test_a_topic_is_read_as_a_table(own: Served) -> None:
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("b", None), (None, 9)):
        own.post("/api/topics/lines/records", {"key": key, "value": value, "partition": 0})
    table = own.get("/api/topics/lines/table")
    assert [(row["key"], row["value"], row["updates"]) for row in table["rows"]] == [("a", 3, 2)]
    assert (table["deleted"], table["without_key"], table["is_complete"]) == (1, 1, True)


def test_an_invalid_expression_is_reported(served: Served) -> None:
    response = served.client.get("/api/topics/rides/records", params={"where": "value.amount >"})
    assert response.status_code == 400
    assert "has the end where a number" in response.json()["error"]["message"]


def test_quantities_have_separators_and_positions_and_keys_do_not(own: Served) -> None:
    numbers = [b"%d" % number for number in range(70_000, 71_234)]
    own.log().append([Output("lines", 0, block_of(numbers, numbers, [START] * len(numbers)))])
    assert ">1,234<" in own.page("/topics")
    page = own.page("/topics/lines")
    assert ">1234<" in page, "the next offset"
    assert ">71233<" in page, "the key"
    assert not re.search(r"[0-9],[0-9]{3}", page)
