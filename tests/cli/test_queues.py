from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Call, Fill

from millstream.log import EmbeddedLog
from millstream.queues.share_consumer import ShareConsumer

_APP = """
from millstream import App, Reject
app = App("mail")
@app.worker("jobs", group="mailers", start="earliest", retry="1 ms", max_deliveries=2)
def mail(job):
    if job.value == "poison":
        raise ValueError("cannot send")
    if job.value == "bad":
        raise Reject("no address")
    print("sent", job.value)
"""


def take(data_dir: Path, number: int) -> list[bytes]:
    with EmbeddedLog(data_dir) as log, ShareConsumer(log, "mailers", topics="jobs", value=bytes) as queue:
        records = queue.poll(timeout=0, max_records=number)
        for record in records:
            queue.accept(record)
        return [record.value for record in records]


def test_share_groups_are_listed_described_reset_and_deleted(call: Call, fill: Fill, data_dir: Path) -> None:
    fill("jobs", (None, b'"a"', 0), (None, b'"b"', 0))
    with EmbeddedLog(data_dir) as log:
        ShareConsumer(log, "mailers", topics="jobs", start="earliest").close()
    assert take(data_dir, 1) == [b'"a"']
    rows = [line.split() for line in call("groups", "list").stdout.splitlines()]
    assert rows[0] == ["SHARE_GROUP", "MEMBERS", "TOPICS", "WAITING", "IN_FLIGHT", "REDELIVERED", "OLDEST", "DEAD"]
    assert (rows[1][:6], rows[1][-1]) == (["mailers", "0", "jobs", "1", "0", "0"], "0")
    described = json.loads(call("groups", "describe", "mailers", "--json").stdout)["partitions"][0]
    assert (described["start"], described["end"], described["waiting"]) == (1, 2, 1)
    assert call("groups", "reset", "mailers", "--to", "earliest", "--execute").exit_code == 0
    assert take(data_dir, 9) == [b'"a"', b'"b"']
    assert call("groups", "delete", "mailers", "--yes").stderr == "deleted mailers\n"
    assert call("groups", "list").stderr == "there are no groups yet\n"


def test_workers_run_and_their_dead_letters_are_replayed(
    call: Call, fill: Fill, data_dir: Path, tmp_path: Path
) -> None:
    program = tmp_path / "mail.py"
    program.write_text(_APP)
    fill("jobs", (None, b'"hello"', 0), (None, b'"poison"', 0), (None, b'"bad"', 0))
    worked = call("work", str(program), "--until", "idle")
    assert (worked.exit_code, worked.stdout) == (0, "sent hello\n")
    letters = ("--topic", "mailers.dead-letters")
    listed = [json.loads(line) for line in call("dlq", "list", *letters, "--json").stdout.splitlines()]
    assert sorted((letter["value"], letter["message"]) for letter in listed) == [
        ("bad", "no address"),
        ("poison", "cannot send"),
    ]
    assert call("dlq", "replay", *letters).stdout == "sent 2 dead letters to jobs\n"
    assert sorted(take(data_dir, 9)) == [b'"bad"', b'"poison"']


def test_an_app_without_workers_is_refused(call: Call, tmp_path: Path) -> None:
    program = tmp_path / "empty.py"
    program.write_text("from millstream import App\napp = App('empty')\n")
    refused = call("work", str(program))
    assert (refused.exit_code, "has no workers; declare one" in refused.stderr) == (1, True)
