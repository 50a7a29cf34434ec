from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.running import run_to_end
from tests.serve.conftest import START, Served, fill, rides_app, serving, words_app

from millstream import App
from millstream.batch.history import FailureNote
from millstream.batch.journal import Journal
from millstream.errors import ProcessingError
from millstream.foundation.paths import journal_dir, lock_file
from millstream.foundation.storage import FileLock, close_environments
from millstream.serve.api.apps import AppParams
from millstream.serve.api.topology import get_topology
from millstream.serve.pages.drawing import arrange


def test_apps_tell_what_they_did_and_what_went_wrong(served: Served) -> None:
    found = {one["app"]: one for one in served.get("/api/apps")}
    rides = found["rides-app"]
    assert (rides["state"], rides["lag"], rides["records_in"]) == ("stopped", 0, 121)
    assert rides["late"] > 0
    assert rides["dead_letters"] == 4  # three rides of amount 0, and one that is no JSON
    assert rides["latency"]["p50"] >= 0
    detail = served.get("/api/apps/rides-app")
    assert detail["batches"][-1]["number"] == rides["batch"]
    assert sum(one["records_in"] for one in detail["batches"]) == 121
    assert detail["dropped"]["rides.map_values: error"] == 3
    assert detail["deploy"]["is_first"]


def test_a_failed_app_tells_why(tmp_path: Path) -> None:
    fill(tmp_path)
    app = App("failing", data_dir=tmp_path)
    app.stream("rides", value=dict).map_values(lambda ride: 1 / ride["amount"]).to("out")
    with pytest.raises(ProcessingError) as failed:
        run_to_end(app)
    close_environments(tmp_path)
    journal = Journal(journal_dir(tmp_path, "failing"))
    facts = {"kind": "user code", "attempts": 1, "code": "processing", "hint": None, "stack": "", "goes_on": False}
    journal.note_failure(FailureNote(at=0, batch=1, message=str(failed.value), **facts))  # type: ignore[arg-type]
    journal.close()
    served = serving(tmp_path)
    (found,) = served.get("/api/apps")
    assert found["state"] == "failed"
    assert "division by zero" in found["why"]
    assert "ZeroDivisionError" in served.page("/")
    served.site.directory.close()


def test_an_app_that_runs_is_running_waiting_or_catching_up(tmp_path: Path) -> None:
    fill(tmp_path)
    run_to_end(words_app(tmp_path))
    lock = FileLock(lock_file(tmp_path, "words-app"))
    assert lock.acquire()
    served = serving(tmp_path)
    assert served.get("/api/apps")[0]["state"] == "waiting"
    served.post("/api/topics/lines/records", {"value": "more", "form": "text"})
    (busy,) = served.get("/api/apps")
    assert (busy["state"], busy["lag"]) == ("running", 1)
    lock.release()
    assert served.get("/api/apps")[0]["state"] == "stopped"
    served.site.directory.close()


def test_a_deploy_tells_what_is_new_gone_and_changed(tmp_path: Path) -> None:
    fill(tmp_path)
    run_to_end(words_app(tmp_path))
    app = App("words-app", data_dir=tmp_path)
    app.stream("lines", value=str).group_by(lambda line: line).count(name="whole_lines").to_stream().to("counts")
    run_to_end(app)
    served = serving(tmp_path)
    change = served.get("/api/apps/words-app")["deploy"]
    assert "whole_lines" in change["added"]
    assert "words" in change["removed"]
    assert not change["is_first"]
    assert "whole_lines" in served.page("/")
    served.site.directory.close()


def test_the_topology_has_topics_stages_and_figures(served: Served) -> None:
    graph = served.get("/api/apps/rides-app/topology")
    nodes = {one["id"]: one for one in graph["nodes"]}
    assert nodes["topic:rides"]["lag"] == 0
    assert nodes["per_zone"]["kind"] == "table"
    assert nodes["per_zone"]["rows"] == 8
    assert nodes["per_zone"]["settings"]["windows"]["size"] == 60_000
    assert "window" in nodes["per_zone"]["semantics"]
    assert [stage["name"] for stage in graph["stages"] if stage["is_slowest"]]
    rekeyed = [edge for edge in graph["edges"] if edge["rekeys"]]
    assert {edge["target"] for edge in rekeyed} == {"per_vendor", "per_zone"}
    assert all(edge["rate"] is not None for edge in rekeyed)


def test_the_topology_tells_rates_inside_of_stages_and_the_slowest_step(served: Served) -> None:
    graph = served.get("/api/apps/rides-app/topology")
    nodes = {one["id"]: one for one in graph["nodes"] if one["kind"] != "topic"}
    assert all(one["rate"] > 0 and one["share"] is not None for one in nodes.values())
    assert sum(one["share"] for one in nodes.values()) == pytest.approx(1)
    (slowest,) = [one for one in nodes.values() if one["is_slowest"]]
    assert slowest["share"] == max(one["share"] for one in nodes.values())
    into = {edge["target"]: edge["rate"] for edge in graph["edges"]}
    (mapped,) = [into[name] for name, one in nodes.items() if one["verb"] == "map_values"]
    assert into["topic:ratios"] / mapped == pytest.approx(117 / 120, rel=0.01)  # three are zero
    assert nodes["per_zone"]["micros"] > 0
    (keyed,) = [edge for edge in graph["edges"] if edge["target"] == "per_vendor"]
    assert 0 < len(keyed["samples"]) <= 5
    assert {one["timestamp"] for one in keyed["samples"]} <= set(range(START - 600_000, START + 120_000))
    page = served.page("/topology?app=rides-app")
    assert page.count(">slowest<") == 1
    assert "Time per record" in page


def test_a_drawing_of_many_nodes_has_no_overlap(tmp_path: Path) -> None:
    app = App("large", data_dir=tmp_path)
    stream = app.stream("rides", value=dict)
    for number in range(15):
        branch = stream.filter(lambda _: True, name=f"f{number}").map_values(lambda ride: ride, name=f"m{number}")
        branch.group_by(lambda ride: ride).count(name=f"c{number}").to_stream().to(f"t{number}")
    fill(tmp_path)
    run_to_end(app)
    served = serving(tmp_path)
    assert served.page("/topology?app=large").count('class="node ') > 60
    picture = arrange(get_topology(served.site, AppParams(app="large")))
    served.site.directory.close()
    places = list(picture.nodes.values())
    assert len(places) > 60
    for at, one in enumerate(places):
        for other in places[at + 1 :]:
            assert one.right <= other.x or other.right <= one.x or one.bottom <= other.y or other.bottom <= one.y
    assert max(box.right for box in places) <= picture.width


def test_letters_are_listed_and_sent_back_once(tmp_path: Path) -> None:
    fill(tmp_path)
    run_to_end(rides_app(tmp_path))
    served = serving(tmp_path)
    found = served.get("/api/apps/rides-app/dead-letters")
    assert (len(found["dead_letters"]), found["waiting"]) == (4, 4)
    assert {one["error"].rpartition(".")[2] for one in found["dead_letters"]} == {"ZeroDivisionError", "DecodeError"}
    assert all("Traceback" in one["stacktrace"] for one in found["dead_letters"])
    assert set(found["late"]) == {"per_zone: late"}
    one = found["dead_letters"][0]
    path = "/api/apps/rides-app/dead-letters/replay"
    assert served.post(path, {"positions": [one["position"]]}).json() == {"sent": {"rides": 1}, "kept": {}}
    assert served.post(path, {"all": True}).json()["sent"] == {"rides": 4}
    assert served.post(path, {"all": True}).json()["sent"] == {}
    assert served.get("/api/topics/rides")["groups"] == [{"group": "rides-app", "lag": 5}]
    assert served.post(path, {"positions": ["99@99"]}).status_code == 400
    served.site.directory.close()


def test_time_tells_stream_times_and_open_windows(served: Served) -> None:
    found = served.get("/api/apps/rides-app/time")
    assert [(one["topic"], one["end"] - one["position"]) for one in found["sources"]] == [("rides", 0), ("rides", 0)]
    (windows,) = found["windows"]
    assert (windows["table"], windows["kind"], windows["grace"]) == ("per_zone", "tumbling, 1 min", 10_000)
    assert (windows["open"], windows["kept"]) == (4, 8)
    assert windows["next_close"] == START + 130_000


def test_why_a_record_is_late(served: Served) -> None:
    late = served.get("/api/apps/rides-app/late", table="per_zone", key="zone-1", time=str(START + 5))
    assert late["is_late"]
    assert late["windows"] == [{"start": START, "end": START + 60_000, "closes_at": START + 70_000, "is_closed": True}]
    assert any("closed when stream time reached" in reason for reason in late["reasons"])
    in_time = served.get("/api/apps/rides-app/late", table="per_zone", key="zone-1", time=str(START + 119_000))
    assert not in_time["is_late"]
    refused = served.client.get("/api/apps/rides-app/late", params={"table": "per_vendor", "key": "a", "time": "1"})
    assert refused.status_code == 404


def test_a_letter_that_somebody_forged_is_shown_and_kept(tmp_path: Path) -> None:
    fill(tmp_path)
    run_to_end(rides_app(tmp_path))
    served = serving(tmp_path)
    forged = {"value": 1, "headers": {"__streams.errors.topic": "rides", "__streams.errors.partition": "<b>-1"}}
    assert served.post("/api/topics/rides-app.dead-letters/records", forged).status_code == 200
    newest = served.get("/api/apps/rides-app/dead-letters", limit=1)["dead_letters"][0]
    assert newest["origin"] == "rides[<b>-1]@?"
    replay = served.post("/api/apps/rides-app/dead-letters/replay", {"positions": [newest["position"]]})
    assert replay.json() == {"sent": {}, "kept": {"rides": 1}}
    served.page("/dead-letters?app=rides-app")
    served.site.directory.close()
