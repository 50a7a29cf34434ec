from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import run_to_end
from tests.serve.conftest import START, Served, fill, rides_app, serving, words_app
from tests.serve.drawings import DIRECTIONS, check_drawing

from millstream import App
from millstream.batch.history import FailureReport
from millstream.batch.journal import Journal
from millstream.errors import ProcessingError
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import journal_dir, lock_file
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.serve.api.apps import AppParams
from millstream.serve.api.topology import get_topology


def test_apps_report_totals_and_dropped_records(served: Served) -> None:
    apps = {app["app"]: app for app in served.get("/api/apps")}
    rides = apps["rides-app"]
    assert (rides["state"], rides["lag"], rides["records_in"]) == ("stopped", 0, 121)
    assert rides["late"] > 0
    assert rides["dead_letters"] == 4  # three rides with amount 0, and one that is not JSON
    assert rides["latency"]["p50"] >= 0
    detail = served.get("/api/apps/rides-app")
    assert detail["batches"][-1]["number"] == rides["batch"]
    assert sum(batch["records_in"] for batch in detail["batches"]) == 121
    assert detail["dropped"]["rides.map_values: error"] == 3
    assert detail["deploy"]["is_first"]


def test_the_overview_reads_only_the_offsets_of_the_topics_that_apps_read(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, str]] = []

    def counted(name: str) -> Callable[..., Any]:
        call = getattr(EmbeddedLog, name)

        def count(log: EmbeddedLog, *arguments: Any) -> Any:
            calls.append((name, str(arguments[:1])))
            return call(log, *arguments)

        return count

    for name in ("offsets", "topic", "read", "topic_names"):
        monkeypatch.setattr(EmbeddedLog, name, counted(name))
    served.page("/")
    assert sorted(calls) == [("offsets", "('lines',)"), ("offsets", "('rides',)")]


def test_a_failed_app_reports_the_reason(tmp_path: Path) -> None:
    fill(tmp_path)
    app = App("failing", data_dir=tmp_path)
    app.stream("rides", value=dict).map_values(lambda ride: 1 / ride["amount"]).to("out")
    with pytest.raises(ProcessingError) as failed:
        run_to_end(app)
    close_environments(tmp_path)
    journal = Journal(journal_dir(tmp_path, "failing"))
    facts = {"kind": "user code", "attempts": 1, "code": "processing", "hint": None, "stack": "", "goes_on": False}
    journal.set_failure(FailureReport(at=0, batch=1, message=str(failed.value), **facts))  # type: ignore[arg-type]
    journal.close()
    served = serving(tmp_path)
    (app,) = served.get("/api/apps")
    assert app["state"] == "failed"
    assert "division by zero" in app["why"]
    assert "ZeroDivisionError" in served.page("/")
    served.site.directory.close()


def test_the_state_of_a_running_app_depends_on_its_lag(tmp_path: Path) -> None:
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


def test_a_deploy_lists_added_and_removed_nodes(tmp_path: Path) -> None:
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


def test_the_topology_has_topics_stages_and_metrics(served: Served) -> None:
    graph = served.get("/api/apps/rides-app/topology")
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert nodes["topic:rides"]["lag"] == 0
    assert nodes["per_zone"]["kind"] == "table"
    assert nodes["per_zone"]["rows"] == 8
    assert nodes["per_zone"]["settings"]["windows"]["size"] == 60_000
    assert "window" in nodes["per_zone"]["semantics"]
    assert [stage["name"] for stage in graph["stages"] if stage["is_slowest"]]
    rekeyed = [edge for edge in graph["edges"] if edge["rekeys"]]
    assert {edge["target"] for edge in rekeyed} == {"per_vendor", "per_zone"}
    assert all(edge["rate"] is not None for edge in rekeyed)


def test_the_topology_has_rates_inside_stages_and_marks_the_slowest_step(served: Served) -> None:
    graph = served.get("/api/apps/rides-app/topology")
    nodes = {node["id"]: node for node in graph["nodes"] if node["kind"] != "topic"}
    assert all(node["rate"] > 0 and node["share"] is not None for node in nodes.values())
    assert sum(node["share"] for node in nodes.values()) == pytest.approx(1)
    (slowest,) = [node for node in nodes.values() if node["is_slowest"]]
    assert slowest["share"] == max(node["share"] for node in nodes.values())
    into = {edge["target"]: edge["rate"] for edge in graph["edges"]}
    (mapped,) = [into[name] for name, node in nodes.items() if node["verb"] == "map_values"]
    assert into["topic:ratios"] / mapped == pytest.approx(117 / 120, rel=0.01)  # three are zero
    assert nodes["per_zone"]["micros"] > 0
    (keyed,) = [edge for edge in graph["edges"] if edge["target"] == "per_vendor"]
    assert 0 < len(keyed["samples"]) <= 5
    assert {sample["timestamp"] for sample in keyed["samples"]} <= set(range(START - 600_000, START + 120_000))
    page = served.page("/topology?app=rides-app")
    drawings = page.count("<svg")
    assert page.count("slowest</tspan>") == drawings > 0
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
    graph = get_topology(served.site, AppParams(app="large"))
    served.site.directory.close()
    assert len(graph.nodes) > 60
    for direction in DIRECTIONS:
        check_drawing(graph, direction)


def test_dead_letters_are_listed_and_replayed_once(tmp_path: Path) -> None:
    fill(tmp_path)
    run_to_end(rides_app(tmp_path))
    served = serving(tmp_path)
    listed = served.get("/api/apps/rides-app/dead-letters")
    assert (len(listed["dead_letters"]), listed["waiting"]) == (4, 4)
    assert {letter["error"].rpartition(".")[2] for letter in listed["dead_letters"]} == {
        "ZeroDivisionError",
        "DecodeError",
    }
    assert all("Traceback" in letter["stacktrace"] for letter in listed["dead_letters"])
    assert set(listed["late"]) == {"per_zone: late"}
    letter = listed["dead_letters"][0]
    path = "/api/apps/rides-app/dead-letters/replay"
    assert served.post(path, {"positions": [letter["position"]]}).json() == {"sent": {"rides": 1}, "kept": {}}
    assert served.post(path, {"all": True}).json()["sent"] == {"rides": 4}
    assert served.post(path, {"all": True}).json()["sent"] == {}
    assert served.get("/api/topics/rides")["groups"] == [{"group": "rides-app", "lag": 5}]
    assert served.post(path, {"positions": ["99@99"]}).status_code == 400
    served.site.directory.close()


def test_time_has_stream_times_and_open_windows(served: Served) -> None:
    app_time = served.get("/api/apps/rides-app/time")
    assert [(source["topic"], source["end"] - source["position"]) for source in app_time["sources"]] == [
        ("rides", 0),
        ("rides", 0),
    ]
    (windows,) = app_time["windows"]
    assert (windows["table"], windows["kind"], windows["grace"]) == ("per_zone", "tumbling, 1 min", 10_000)
    assert (windows["open"], windows["kept"]) == (4, 8)
    assert windows["next_close"] == START + 130_000


def test_the_reason_for_a_late_record_is_explained(served: Served) -> None:
    late = served.get("/api/apps/rides-app/late", table="per_zone", key="zone-1", time=str(START + 5))
    assert late["is_late"]
    assert late["windows"] == [{"start": START, "end": START + 60_000, "closes_at": START + 70_000, "is_closed": True}]
    assert any("closed when stream time reached" in reason for reason in late["reasons"])
    in_time = served.get("/api/apps/rides-app/late", table="per_zone", key="zone-1", time=str(START + 119_000))
    assert not in_time["is_late"]
    refused = served.client.get("/api/apps/rides-app/late", params={"table": "per_vendor", "key": "a", "time": "1"})
    assert refused.status_code == 404


def test_a_forged_dead_letter_is_shown_and_not_replayed(tmp_path: Path) -> None:
    fill(tmp_path)
    run_to_end(rides_app(tmp_path))
    served = serving(tmp_path)
    forged = {"value": 1, "headers": {"__streams.errors.topic": "rides", "__streams.errors.partition": "<b>-1"}}
    assert served.post("/api/topics/rides-app.dead-letters/records", forged).status_code == 200
    newest = served.get("/api/apps/rides-app/dead-letters", limit=1)["dead_letters"][0]
    assert newest["origin"] == "rides[<b>-1]@?"
    replayed = served.post("/api/apps/rides-app/dead-letters/replay", {"positions": [newest["position"]]})
    assert replayed.json() == {"sent": {}, "kept": {"rides": 1}}
    served.page("/dead-letters?app=rides-app")
    served.site.directory.close()
