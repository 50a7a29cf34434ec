import json
import threading
from pathlib import Path

import msgspec
import pytest
from tests.cli.conftest import Call, Fill
from tests.cli.running import run_to_end

from millstream import App, tumbling
from millstream.cli.settings import CommonOptions
from millstream.foundation.partitioning import partition_of
from millstream.serdes import INT64


class Visit(msgspec.Struct):
    page: str
    user: int


@pytest.fixture
def app(fill: Fill, data_dir: Path) -> App:
    """Return an app that has counted visits by page, with text keys, and by user, with numbers."""
    app = App("shop", data_dir=data_dir)
    visits = app.stream("visits", value=Visit)
    visits.group_by(lambda visit: visit.page).count(name="pages")
    visits.group_by(lambda visit: visit.user).aggregate(dict, lambda _, visit: {"last": visit.page}, name="users")
    pages = [("home", 17), ("ho\x1b[31mme", 17), ("17", 18)]
    fill("visits", *((None, msgspec.json.encode(Visit(page, user)), 5) for page, user in pages))
    run_to_end(app)
    return app


@pytest.mark.parametrize("arguments", [["tables", "list"], ["apps", "list"], ["topics", "list"]])
def test_a_data_directory_of_another_user(
    call: Call, app: App, data_dir: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: data_dir.stat().st_uid + 1)
    refused = call(*arguments)
    assert refused.exit_code == 1
    assert refused.stderr == f"error: {str(data_dir)!r} belongs to another user; use a directory that you own\n"


def test_tables_are_listed(call: Call, app: App) -> None:
    listed = call("tables", "list", "--rows")
    assert listed.exit_code == 0
    assert [line.split() for line in listed.stdout.splitlines()] == [
        ["APP", "TABLE", "ROWS"],
        ["shop", "pages", "3"],
        ["shop", "users", "2"],
    ]
    assert json.loads(call("tables", "list", "--json", "--app", "shop").stdout) == [
        {"app": "shop", "table": "pages"},
        {"app": "shop", "table": "users"},
    ]


def test_no_tables_yet(call: Call, fill: Fill) -> None:
    fill("visits")
    assert call("tables", "list").stderr == "there are no tables yet\n"


@pytest.mark.parametrize(
    ("table", "key", "shown"),
    [
        ("pages", "home", "1"),
        ("pages", "17", "1"),
        ("users", "17", '{"last":"ho\\u001b[31mme"}'),
    ],
)
def test_a_key_is_text_or_json(call: Call, app: App, table: str, key: str, shown: str) -> None:
    got = call("tables", "get", table, key, "--app", "shop")
    assert (got.exit_code, got.stdout) == (0, f"{shown}\n")


def test_a_row_as_json(call: Call, app: App) -> None:
    assert json.loads(call("tables", "get", "users", "18", "--json").stdout) == {
        "key": 18,
        "value": {"last": "17"},
        "timestamp": 5,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["users", "missing"], "table 'users' has no row with key 'missing'; see: millstream tables scan users; new"),
        (["nothing", "a"], "app 'shop' has no table 'nothing'; its tables: pages, users"),
        (["users", "17", "--app", "other"], "app 'other' has not run on "),
    ],
)
def test_unknown_names(call: Call, app: App, arguments: list[str], message: str) -> None:
    refused = call("tables", "get", *arguments)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"error: {message}")


def test_rows_are_scanned(call: Call, app: App) -> None:
    scanned = call("tables", "scan", "pages")
    assert scanned.exit_code == 0
    assert sorted(scanned.stdout.splitlines()) == ["17\t1", "ho\\x1b[31mme\t1", "home\t1"]
    assert sorted(call("tables", "scan", "pages", "--prefix", "hom").stdout.splitlines()) == ["home\t1"]
    assert len(call("tables", "scan", "pages", "--limit", "2").stdout.splitlines()) == 2
    rows = [json.loads(line) for line in call("tables", "scan", "users", "--json").stdout.splitlines()]
    assert {row["key"] for row in rows} == {17, 18}


def test_get_waits_for_a_row_if_asked_to(call: Call, app: App, fill: Fill) -> None:
    def visit() -> None:
        fill("visits", (None, msgspec.json.encode(Visit("late", 21)), 0))
        run_to_end(app)

    assert call("tables", "get", "users", "21").exit_code == 1
    timer = threading.Timer(0.3, visit)
    timer.start()
    waited = call("tables", "get", "users", "21", "--wait")
    timer.join()
    assert waited.exit_code == 0, waited.stderr


def test_the_app_must_be_chosen_if_there_are_several(call: Call, app: App, data_dir: Path) -> None:
    other = App("other", data_dir=data_dir)
    other.stream("visits").to("copies")
    run_to_end(other)
    refused = call("tables", "get", "users", "17", "--wait")  # at once: waiting does not help
    assert refused.exit_code == 1
    assert refused.stderr.endswith("choose one with --app: other, shop\n")
    assert call("tables", "get", "users", "17", settings=CommonOptions(app=app)).exit_code == 0


def test_apps_are_listed(call: Call, app: App) -> None:
    assert [line.split(maxsplit=1) for line in call("apps", "list").stdout.splitlines()] == [
        ["APP", "TABLES"],
        ["shop", "pages, users"],
    ]
    assert json.loads(call("apps", "list", "--json").stdout) == [{"app": "shop", "tables": ["pages", "users"]}]


def test_no_app_has_run(call: Call, fill: Fill) -> None:
    fill("visits")
    assert call("apps", "list").stderr.startswith("no app has run on ")
    refused = call("tables", "scan", "users")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: no app has run on ")
    assert refused.stderr.endswith("run one: millstream run FILE\n")


def test_keys_of_other_types(call: Call, fill: Fill, data_dir: Path) -> None:
    app = App("odd", data_dir=data_dir)
    app.table("numbers", key=INT64, value=str, name="numbers")
    app.stream("visits", value=Visit).group_by(lambda visit: (visit.page, visit.user)).count(name="pairs")
    fill("numbers", (INT64.encode(17), b"seventeen", 1), partition=partition_of(INT64.encode(17), 2))
    fill("visits", (None, msgspec.json.encode(Visit("home", 3)), 1))
    run_to_end(app)
    assert call("tables", "get", "numbers", "17").stdout == "seventeen\n"
    assert call("tables", "get", "numbers", "seventeen").exit_code == 1
    assert call("tables", "get", "pairs", '["home", 3]').stdout == "1\n"


def test_the_windows_of_a_key(call: Call, fill: Fill, data_dir: Path) -> None:
    app = App("hours", data_dir=data_dir)
    app.stream("calls", value=int).group_by_key().windowed_by(tumbling("1 min", grace="1 min")).count(name="per_minute")
    calls = ((b"ada", b"1", second * 1000) for second in (0, 59, 60))
    fill("calls", *calls, partition=partition_of(b"ada", 2))
    run_to_end(app)
    assert call("tables", "get", "per_minute", "ada").stdout == (
        '{"key":"ada","start":0,"end":60000}\t2\n{"key":"ada","start":60000,"end":120000}\t1\n'
    )
    newest = json.loads(call("tables", "get", "per_minute", "ada", "--json").stdout.splitlines()[-1])
    assert newest == {"key": {"key": "ada", "start": 60_000, "end": 120_000}, "value": 1, "timestamp": 60_000}
    assert "no row with key 'bob'" in call("tables", "get", "per_minute", "bob").stderr


def test_versions_and_windows_are_printed_by_time(call: Call, fill: Fill, data_dir: Path) -> None:
    app = App("market", data_dir=data_dir)
    prices = app.stream("prices", value=int)
    prices.to_table(name="price", history="1 h")
    prices.group_by_key().windowed_by(tumbling("1 s")).count(name="per_second")
    fill("prices", (b"a", b"10", 1000), (b"a", b"11", 2000))
    run_to_end(app)
    versions = call("tables", "get", "price", "a", "--versions").stdout
    assert versions == "1970-01-01T00:00:02.000Z\t11\n1970-01-01T00:00:01.000Z\t10\n"
    assert call("tables", "get", "price", "a", "--as-of", "1970-01-01T00:00:01.500Z").stdout == "10\n"
    later = call("tables", "get", "per_second", "a", "--since", "1970-01-01T00:00:02Z")
    assert len(later.stdout.splitlines()) == 1
    refused = call("tables", "get", "per_second", "a", "--versions")
    assert refused.stderr == "error: table 'per_second' has no history; keep one with history=\"1 d\"\n"
