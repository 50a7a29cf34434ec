import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.cli.conftest import Call, Fill
from tests.cli.running import run_to_end

from millstream import App
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import lock_file, profile_dir, state_dir
from millstream.task.profiler import ProfileRequest, process_profiles, profiled, request_profile
from millstream.views.profile import Profile, kind_of, take_profile

RECORDS = [(b"k%d" % (number % 7), b"20000", number) for number in range(300)]


def spin(value: int) -> int:
    return sum(range(value))


@pytest.fixture
def app(fill: Fill, data_dir: Path) -> Iterator[App]:
    """An app that spends most of its time in ``spin``; another process seems to run it."""
    app = App("spinning", data_dir=data_dir)
    app.stream("numbers", value=int).map_values(spin).group_by_key().count(name="counts").to_stream().to("sums")
    fill("numbers", *RECORDS)
    run_to_end(app)
    lock = FileLock(lock_file(data_dir, "spinning"))
    lock.acquire()
    yield app
    lock.release()


def batches_instead_of_sleep(app: App, fill: Fill) -> Callable[[float], None]:
    """Return a function that runs batches in this thread until they have been sampled, and then ends the request."""
    directory = profile_dir(state_dir(app.data_dir, app.id))

    def run(seconds: float) -> None:
        if seconds < 1:
            threading.Event().wait(seconds)
            return
        while not any(" spin [user]" in path.read_text() for path in directory.glob("*.*.json")):
            fill("numbers", *RECORDS)
            run_to_end(app, measured=True)
        (directory / "request.json").unlink()

    return run


def test_a_profile_shows_the_functions_of_the_app(app: App, fill: Fill, data_dir: Path) -> None:
    profile = take_profile(data_dir, "spinning", 60.0, interval=0.002, sleep=batches_instead_of_sleep(app, fill))
    assert profile.processes == 1
    assert 0 < profile.in_batches <= profile.samples
    slowest = profile.functions[0]
    assert slowest.function.startswith("cli/test_profile.py:")
    assert slowest.function.endswith(" spin")
    assert profile.kinds["user functions"] > 0
    assert sum(profile.kinds.values()) == profile.in_batches
    assert all(stack.startswith("millstream/batch/execute.py:") for stack in profile.stacks)
    assert "counts" in profile.steps
    assert list(profile_dir(state_dir(data_dir, "spinning")).iterdir()) == []  # request and samples are deleted


def test_the_command_writes_tables_a_flame_graph_and_stacks(
    app: App, fill: Fill, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = partial(take_profile, sleep=batches_instead_of_sleep(app, fill))
    monkeypatch.setattr("millstream.cli.profile.take_profile", waiting)
    svg, stacks = tmp_path / "flames.svg", tmp_path / "stacks.txt"
    output = call("profile", "--seconds", "60", "--svg", str(svg), "--stacks", str(stacks)).stdout
    assert "WORK" in output
    assert "user functions" in output
    assert " spin" in output
    titles = [title.text or "" for title in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}title")]
    assert any(" spin [user]: " in title for title in titles)
    frames, count = stacks.read_text().splitlines()[0].rsplit(" ", 1)
    assert frames.startswith("millstream/")
    assert int(count) > 0
    result = json.loads(call("profile", "spinning", "--seconds", "60", "--json").stdout)
    assert result["in_batches"] == sum(result["kinds"].values()) > 0


def test_an_app_that_does_not_run(fill: Fill, data_dir: Path, call: Call) -> None:
    app = App("stopped", data_dir=data_dir)
    app.stream("numbers", value=int).to("out")
    fill("numbers", (None, b"1", 0))
    run_to_end(app)
    result = call("profile")
    assert result.exit_code == 1
    assert "app 'stopped' is not running; start it with: millstream run FILE" in result.stderr


def test_an_expired_request_is_ignored(tmp_path: Path) -> None:
    request_profile(tmp_path, ProfileRequest(id="old", until=1.0, interval=0.001))
    with profiled(tmp_path):
        assert all(thread.name != "millstream-profiler" for thread in threading.enumerate())
    assert process_profiles(tmp_path, "old") == []


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        (["task/runner.py:98 run_task", "task/runner.py:80 TaskCommitter.publish", "log/topic.py:9 read"], "publish"),
        (["state/task.py:80 TaskState.update", "foundation/storage.py:190 Environment.write"], "commit"),
        (["state/task.py:80 TaskState.update", "state/keyvalue.py:80 KeyValueStore._load_all"], "state"),
        (["state/task.py:80 TaskState.update", "task/runner.py:80 _apply"], "other"),
        (["task/run.py:9 TaskRun._from_topic", "task/inputs.py:7 Decoder.decode"], "decode"),
        (["task/run.py:9 TaskRun._from_topic", "log/topic.py:7 Topic.read"], "read"),
        (["operators/emitting.py:40 Emitter._flush", "operators/sinks.py:70 process_columns"], "encode"),
        (["operators/windows.py:40 update"], "steps"),
        (["batch/execute.py:40 run_batch"], "other"),
    ],
)
def test_kinds_of_work(frames: list[str], kind: str) -> None:
    assert kind_of(";".join(f"millstream/{frame}" for frame in frames)) == kind


def test_functions_that_call_each_other() -> None:
    stacks = {"a.py:1 outer [user];a.py:5 inner [user];json/decoder.py:1 decode": 3, "a.py:1 outer [user]": 1}
    profile = Profile(app="a", seconds=1, processes=1, samples=9, stacks=stacks, steps={})
    assert [(function.function, function.own, function.total) for function in profile.functions] == [
        ("a.py:1 outer", 1, 4),
        ("a.py:5 inner", 3, 3),
    ]
    assert profile.collapsed().splitlines()[0] == f"{next(reversed(stacks))} 1"
