import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Call, Fill
from tests.cli.running import run_to_end

from millstream import App
from millstream.records import Record

Stored = Callable[[str], list[Record]]


@pytest.fixture
def app(fill: Fill, data_dir: Path) -> App:
    """An app that doubles numbers and has two dead letters, for values that are not numbers."""
    app = App("double", data_dir=data_dir)
    app.stream("numbers", value=int).map_values(lambda n: n * 2).to("doubles")
    fill("doubles")
    fill("numbers", (b"a", b"1", 5), (b"b", b"one\x1b[31m", 6), partition=1)
    fill("numbers", (b"c", b"{", 7))
    run_to_end(app)
    return app


def test_dead_letters_are_listed_with_origin_and_error(call: Call, app: App) -> None:
    listed = call("dlq", "list")
    rows = listed.stdout.splitlines()
    assert rows[0].split() == ["POSITION", "TIME", "ORIGIN", "NODE", "ERROR"]
    assert ["numbers[1]@1" in row or "numbers[0]@0" in row for row in rows[1:]] == [True, True]
    assert "2 dead letters in double.dead-letters not replayed yet" in listed.stderr
    letters = [json.loads(line) for line in call("dlq", "list", "--json").stdout.splitlines()]
    assert {(letter["origin"], letter["key"], letter["node"]) for letter in letters} == {
        ("numbers[1]@1", "b", "numbers"),
        ("numbers[0]@0", "c", "numbers"),
    }
    assert len(call("dlq", "list", "--limit", "1").stdout.splitlines()) == 2


def test_a_dead_letter_is_shown_completely_and_escaped(call: Call, app: App) -> None:
    letters = [json.loads(line) for line in call("dlq", "list", "--json").stdout.splitlines()]
    position = next(letter["position"] for letter in letters if letter["key"] == "b")
    shown = call("dlq", "show", position).stdout
    assert f"position  {position}, 1970-01-01T00:00:00.006Z\n" in shown
    assert "origin    numbers[1]@1, stage numbers, node numbers\n" in shown
    assert "value     one\\x1b[31m\n" in shown
    assert "Traceback (most recent call last)" in shown
    assert "\x1b" not in shown


def test_replay_sends_each_dead_letter_once_to_its_origin(call: Call, app: App, stored: Stored) -> None:
    before = stored("numbers")
    assert "would replay 2 dead letters of double.dead-letters" in call("dlq", "replay", "--dry-run").stderr
    assert stored("numbers") == before
    assert call("dlq", "replay").stdout == "sent 2 dead letters to numbers\n"
    again = [
        (record.partition, record.key, record.value, record.timestamp, record.headers) for record in stored("numbers")
    ]
    assert again.count((1, b"b", b"one\x1b[31m", 6, ())) == 2
    assert again.count((0, b"c", b"{", 7, ())) == 2
    assert call("dlq", "replay").stderr == "all dead letters were already replayed\n"
    assert "0 dead letters in" in call("dlq", "list").stderr


def test_a_replayed_record_that_fails_is_a_new_dead_letter(call: Call, app: App) -> None:
    letters = [json.loads(line) for line in call("dlq", "list", "--json").stdout.splitlines()]
    assert call("dlq", "replay", letters[0]["position"]).stdout == "sent 1 dead letter to numbers\n"
    run_to_end(app)
    assert len(call("dlq", "list", "--json").stdout.splitlines()) == 3


def test_an_unknown_dead_letter(call: Call, app: App) -> None:
    assert "'x' is not a valid position of a dead letter" in call("dlq", "show", "x").stderr
    assert "there is no dead letter 0@99 in 'double.dead-letters'" in call("dlq", "show", "0@99").stderr
    assert call("dlq", "replay", "9@0").exit_code == 1


def test_an_app_without_dead_letters(call: Call, fill: Fill, data_dir: Path) -> None:
    fine = App("fine", data_dir=data_dir)
    fine.stream("words", value=str).to("copies")
    fill("words", (None, b"a", 0))
    fill("copies")
    run_to_end(fine)
    assert call("dlq", "list").stderr == "there are no dead letters in fine.dead-letters\n"
    assert call("dlq", "replay").stderr == "there are no dead letters in fine.dead-letters\n"
