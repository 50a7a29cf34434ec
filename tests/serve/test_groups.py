from __future__ import annotations

from tests.serve.conftest import Served

from millstream.queues.share_consumer import ShareConsumer
from millstream.records import TopicPartition


def test_groups_show_members_offsets_and_lag(own: Served) -> None:
    for number in range(6):
        own.post("/api/topics/lines/records", {"value": number, "partition": number % 2})
    own.log().commit("audit", {TopicPartition("lines", 0): 1})
    (listed,) = own.get("/api/groups")
    assert listed == {"group": "audit", "members": 0, "topics": ["lines"], "lag": 5, "is_app": False}
    detail = own.get("/api/groups/audit")["partitions"]
    assert [(row["partition"], row["committed"], row["end"], row["lag"]) for row in detail] == [
        (0, 1, 3, 2),
        (1, None, 3, 3),
    ]


def test_a_reset_changes_offsets_only_with_execute(own: Served) -> None:
    own.post("/api/topics/lines/records", {"value": 1, "partition": 0})
    own.log().commit("audit", {TopicPartition("lines", 0): 1})
    planned = own.post("/api/groups/audit/reset", {"to": "earliest"}).json()
    assert (planned["executed"], planned["moves"][0]) == (
        False,
        {"topic": "lines", "partition": 0, "before": 1, "after": 0},
    )
    assert own.log().committed("audit")[TopicPartition("lines", 0)] == 1
    assert own.post("/api/groups/audit/reset", {"to": "earliest", "execute": True}).json()["executed"]
    assert own.log().committed("audit")[TopicPartition("lines", 0)] == 0


def test_the_group_of_an_app_cannot_be_reset(served: Served) -> None:
    refused = served.post("/api/groups/rides-app/reset", {"to": "earliest", "execute": True})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "state")
    assert "continues from its journal" in refused.json()["error"]["message"]


def test_a_group_is_deleted_with_its_name_as_confirmation(own: Served) -> None:
    own.log().commit("audit", {TopicPartition("lines", 0): 0})
    assert "nothing" in own.post("/api/groups/audit/delete", {"confirm": "x"}).json()["done"]
    assert own.post("/api/groups/audit/delete", {"confirm": "audit"}).json() == {"done": "deleted audit"}
    assert own.client.get("/api/groups/audit").status_code == 404


def test_share_groups_are_shown_reset_and_deleted(own: Served) -> None:
    for number in range(4):
        own.post("/api/topics/lines/records", {"value": number, "partition": 0})
    log = own.log()
    with ShareConsumer(log, "mailers", topics="lines", start="earliest") as queue:
        first, second, *_ = queue.poll()
        queue.accept(first)
        queue.reject(second)
        queue.commit()
        (listed,) = own.get("/api/groups")
        assert (listed["lag"], listed["share"]["waiting"], listed["share"]["in_flight"]) == (2, 0, 2)
        assert listed["share"]["dead"] == 1
        detail = own.get("/api/groups/mailers")
        assert (detail["is_share"], detail["shared_partitions"][0]["start"], len(detail["members"])) == (True, 2, 1)
        assert "In flight" in own.client.get("/groups").text
        assert "Redelivered" in own.client.get("/groups/mailers").text
    assert own.post("/api/groups/mailers/reset", {"to": "earliest", "execute": True}).json()["executed"]
    assert own.get("/api/groups/mailers")["shared_partitions"][0]["waiting"] == 4
    assert own.post("/api/groups/mailers/delete", {"confirm": "mailers"}).json() == {"done": "deleted mailers"}
    assert own.get("/api/groups") == []
