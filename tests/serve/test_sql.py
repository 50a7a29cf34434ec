"""SQL over HTTP: statements, streams of rows, the catalog, limits, and what cannot be sent."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.serve.conftest import HOSTILE, Served, run_taxi_app, web_server

from millstream.queries.limits import Limits
from millstream.serve.api import sql
from millstream.serve.server import WebServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebServer]:
    run_taxi_app(tmp_path)
    with web_server(tmp_path) as server:
        yield server


def client(server: WebServer) -> httpx2.Client:
    csrf = httpx2.get(f"{server.url}/api/csrf").text
    return httpx2.Client(base_url=server.url, headers={"x-csrf-token": csrf}, timeout=30)


def post(server: WebServer, text: str, **fields: Any) -> httpx2.Response:
    with client(server) as http:
        return http.post("/api/sql", json={"sql": text, **fields})


def lines(server: WebServer, text: str, **fields: Any) -> list[dict[str, Any]]:
    with client(server) as http:
        response = http.post("/api/sql/query", json={"sql": text, **fields})
    return [json.loads(line.removeprefix("data: ")) for line in response.text.splitlines() if line]


def test_statements_are_answered_in_order(server: WebServer) -> None:
    response = post(server, "INSERT INTO rides VALUES (9, 'Wedding', 1.5); SELECT * FROM zones WHERE zone = 'Mitte';")
    assert response.status_code == 200
    inserted, rows = response.json()
    assert inserted["message"] == "1 record inserted into rides"
    assert rows["rows"] == [["Mitte", 2]]
    assert rows["columns"][0] == {"name": "ZONE", "type": "STRING", "is_key": True}


def test_a_query_sends_its_rows_until_its_limit_or_its_time(server: WebServer) -> None:
    earliest = {"settings": {"auto.offset.reset": "earliest"}}
    query = "SELECT zone FROM rides EMIT CHANGES LIMIT 2;"
    assert lines(server, query, **earliest) == [
        {"columns": [{"name": "ZONE", "type": "STRING", "is_key": False}], "changes": True},
        {"row": ["Mitte"]},
        {"row": ["Tegel"]},
        {"end": "limit reached"},
    ]
    assert lines(server, query, format="events", **earliest)[-1] == {"end": "limit reached"}
    assert lines(server, "SELECT * FROM rides EMIT CHANGES;", seconds=0.1)[-1] == {"end": "0.1 s are over"}
    assert lines(server, "SELECT n FROM zones WHERE zone = 'Mitte';")[1:] == [{"row": [2]}, {"end": "complete"}]


def test_the_catalog_lists_sources_with_their_columns(server: WebServer) -> None:
    with client(server) as http:
        catalog = http.get("/api/sql/catalog").json()
    assert catalog["app"] == "taxi"
    assert {source["name"]: source["is_stored"] for source in catalog["sources"]} == {"RIDES": False, "ZONES": True}
    assert catalog["sources"][1]["statement"].startswith("CREATE TABLE zones AS")
    kinds = {function["name"]: function["kind"] for function in catalog["functions"]}
    assert (kinds["UCASE"], kinds["COUNT"], kinds["EXPLODE"]) == ("scalar", "aggregate", "table")


def test_queries_are_paused_and_resumed(server: WebServer) -> None:
    with client(server) as http:
        dry = http.post("/api/sql/queries", json={"verb": "pause", "queries": ["zones"], "dry_run": True}).json()
        assert http.get("/api/sql/catalog").json()["queries"] == [
            {"name": "ZONES", "state": "RUNNING", "together": ["ZONES"]}
        ]
        assert http.post("/api/sql/queries", json={"verb": "pause", "queries": ["zones"]}).json() == dry
        assert http.get("/api/sql/catalog").json()["queries"][0]["state"] == "PAUSED"
        page = http.get("/sql").text
        assert (">Resume<" in page, ">Pause<" in page) == (True, False)
        refused = http.post("/api/sql/queries", json={"verb": "terminate", "queries": ["nothing"]})
        assert (refused.status_code, refused.json()["error"]["hint"]) == (400, "its queries: ZONES")
    [shown] = post(server, "RESUME zones; SHOW QUERIES;").json()[1:]
    assert shown["rows"][0][:3] == ["ZONES", "ZONES", "RUNNING"]


def test_an_error_says_where_it_is(server: WebServer) -> None:
    error = post(server, "SELECT zone,\n  x FROM zones;").json()["error"]
    assert (error["line"], error["column"]) == (2, 3)
    assert error["hint"].endswith("\n    x FROM zones;\n    ^")
    assert "line" not in post(server, "SHOW TABLES;", app="nothing").json()["error"]


def test_queries_are_explained_and_nothing_is_executed(server: WebServer) -> None:
    [select, create] = post(
        server,
        "SELECT * FROM zones WHERE zone = 'a'; CREATE TABLE km AS SELECT zone, SUM(km) AS s FROM rides GROUP BY zone;",
        explain=True,
    ).json()
    assert select["rows"][0] == ["read 1 key of the stored table ZONES of 4 partitions"]
    assert "aggregate" in str(create["rows"])
    push = lines(server, "SELECT * FROM rides EMIT CHANGES;", explain=True)
    assert (push[1], push[-1]) == ({"row": ["stage RIDES.source (level 0) reads topic rides"]}, {"end": "complete"})
    before = post(server, "SHOW TOPICS;").json()
    refused = post(server, "INSERT INTO rides (id) VALUES (1);", explain=True)
    assert (refused.status_code, refused.json()["error"]["line"]) == (400, 1)
    assert "only a query can be explained" in refused.json()["error"]["message"]
    assert post(server, "SHOW TOPICS;").json() == before


def test_the_page_has_an_editor_and_the_catalog(server: WebServer) -> None:
    page = httpx2.get(f"{server.url}/sql").text
    assert "SQL: taxi" in page
    assert ">SELECT * FROM ZONES LIMIT 10;</textarea>" in page
    for text in ('data-insert="RIDES"', 'data-insert="KM"', 'data-insert="UCASE("', "CREATE TABLE zones AS"):
        assert text in page
    assert httpx2.get(f"{server.url}/sql?app=nothing").status_code == 404


def test_the_page_of_several_apps_shows_one_and_links_to_the_others(server: WebServer, tmp_path: Path) -> None:
    run_taxi_app(tmp_path, "bus")
    page = httpx2.get(f"{server.url}/sql").text
    assert "SQL: bus" in page
    assert 'href="/sql?app=taxi"' in page
    assert "SQL: taxi" in httpx2.get(f"{server.url}/sql?app=taxi").text


def test_the_page_without_sql_says_how_to_query_a_topic(own: Served) -> None:
    page = own.page("/sql")
    assert "No app here is written in SQL" in page
    assert ">SHOW TOPICS;</textarea>" in page


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("SELECT x FROM zones;", 400, "line 1, column 8: column X of SELECT is unknown"),
        ("SELECT * FROM rides EMIT CHANGES;", 400, "does not end"),
        ("CREATE TABLE t AS SELECT * FROM zones;", 400, "is part of an app"),
        ("CREATE FUNCTION f(a STRING) RETURNS INT AS 'os:system';", 400, "cannot be used here"),
        ("SELECT `FUNCTION f(STRING) RETURNS INTEGER AS 'os:system'`('true') AS x FROM zones;", 400, "unknown"),
        ("SELECT " + "(" * 500 + "1" + ")" * 500 + " FROM zones;", 400, "nested more than"),
        ("SELECT * FROM zones WHERE zone = '" + "x" * 100_001 + "';", 400, "invalid request"),
        ("TERMINATE nothing;", 400, "its queries: ZONES"),
        ("SET 'ksql.schema.registry.url' = 'http://127.0.0.1:1';", 400, "cannot be set here"),
    ],
)
def test_what_cannot_be_executed_is_refused(server: WebServer, text: str, status: int, message: str) -> None:
    response = post(server, text)
    assert response.status_code == status
    assert message in response.json()["error"]["message"] + (response.json()["error"]["hint"] or "")


def test_a_function_that_a_request_declares_is_never_called(server: WebServer, tmp_path: Path) -> None:
    path = tmp_path / "called"
    code = f"`FUNCTION f(STRING) RETURNS INTEGER AS 'os:mkdir'`('{path}')"
    for query in (f"SELECT {code} AS x FROM zones;", f"SELECT * FROM zones WHERE {code} = 1;"):
        assert post(server, query).status_code == 400
        assert post(server, f"EXPLAIN {query}").status_code == 400
    assert post(server, f"INSERT INTO rides (id) VALUES ({code});").status_code == 400
    assert not path.exists()


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_text_is_data(server: WebServer, word: str) -> None:
    quoted = word.replace("'", "''")
    assert post(server, f"SELECT * FROM zones WHERE zone = '{quoted}';").json()[0]["rows"] == []


def test_a_result_beyond_a_limit_is_refused(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "LIMITS", Limits(rows=1))
    response = post(server, "SELECT * FROM zones;")
    assert (response.status_code, response.json()["error"]["code"]) == (413, "query_limit")


@pytest.mark.parametrize(
    ("statement", "limits"),
    [
        ("SELECT * FROM zones;", Limits(rows=5)),
        ("SELECT * FROM rides;", Limits(read=5)),
        ("SELECT * FROM rides;", Limits(read_bytes=500)),
        ("SHOW TABLES;", Limits(bytes=600)),
        ("SHOW TABLES;", Limits(seconds=0)),
    ],
)
def test_many_statements_of_a_request_share_its_limits(
    server: WebServer, monkeypatch: pytest.MonkeyPatch, statement: str, limits: Limits
) -> None:
    monkeypatch.setattr(sql, "LIMITS", limits)
    response = post(server, statement * 20)
    assert (response.status_code, response.json()["error"]["code"]) == (413, "query_limit")


def test_a_request_without_the_csrf_token_is_rejected(server: WebServer) -> None:
    response = httpx2.post(f"{server.url}/api/sql", json={"sql": "SHOW TABLES;"})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "csrf")


def test_an_unknown_app_is_rejected(server: WebServer) -> None:
    assert post(server, "SHOW TABLES;", app="nothing").status_code == 404


def test_a_request_cannot_name_an_address_to_read(server: WebServer) -> None:
    settings = {"ksql.schema.registry.url": "http://127.0.0.1:1"}
    response = post(server, "SHOW TABLES;", settings=settings)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "definition")
