import os
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.cli.conftest import Call

from millstream import App
from millstream.cli.run import _served
from millstream.errors import BrokerUnavailableError, StorageError
from millstream.foundation.paths import lock_file
from millstream.serve.address import WebAddress
from millstream.serve.process import WebProcess

APP = """
from millstream import App, Config

app = App("word-count", config=Config(master="local[1]", partitions=2))
(app.stream("lines", value=str)
    .flat_map_values(str.split)
    .group_by(lambda word: word)
    .count(name="words")
    .to_stream()
    .to("word-counts"))

if __name__ == "__main__":
    app.main()
"""
MILLSTREAM = [sys.executable, "-c", "from millstream.cli.main import main; main()"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "counting_words.py"
    path.write_text(APP)
    return path


HOLD_LOCK = """
import sys
from pathlib import Path
from millstream.foundation.file_lock import FileLock

assert FileLock(Path(sys.argv[1])).acquire()
print("acquired", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("arguments", [[], ["--quiet"]])
def test_a_second_run_is_rejected(call: Call, file: Path, data_dir: Path, arguments: list[str]) -> None:
    command = [sys.executable, "-c", HOLD_LOCK, str(lock_file(data_dir, "word-count"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "acquired\n"
        refused = call("run", str(file), "--data-dir", str(data_dir), *arguments)
        first.communicate()
    assert refused.exit_code == 1
    assert refused.stderr == (
        f"error: app 'word-count' is already running on {str(data_dir)!r} (process {first.pid}); "
        "stop that run first, or give this one another id or --data-dir\n"
    )
    assert refused.stdout == ""


def test_a_standby_that_cannot_take_over_because_of_an_outage_stands_by_again(
    call: Call, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its brokers may show no run because this host and they are cut off, and accept no other run."""
    needed = [True, True, False]
    unreachable = BrokerUnavailableError("cannot take the journal over: no broker responds")

    def start(*_: object, **__: object) -> None:
        raise unreachable

    monkeypatch.setattr("millstream.cli.run._TAKEOVER_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(App, "stand_by", lambda _: needed.pop(0))
    monkeypatch.setattr(App, "start", start)
    standby = call("run", str(file), "--standby", "--no-web")
    assert standby.exit_code == 0, standby.output
    assert standby.output.count(f"cannot take over word-count: {unreachable.message}; standing by again") == 2
    assert needed == []
    needed = [True]
    monkeypatch.setattr("tests.cli.test_run.BrokerUnavailableError.retryable", False)
    assert call("run", str(file), "--standby", "--no-web").exit_code == 1, "an error that stays ends the standby"


def test_a_data_directory_that_cannot_be_created(call: Call, file: Path, data_dir: Path) -> None:
    data_dir.write_text("I am a file")
    refused = call("run", str(file), "--data-dir", str(data_dir / "below"))
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"error: cannot use {str(data_dir / 'below')!r}: ")
    assert "or choose another with --data-dir\n" in refused.stderr
    assert refused.stdout == ""


def test_a_data_directory_that_cannot_be_accessed(
    call: Call, file: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.setattr(Path, "glob", refuse)
    refused = call("run", str(file), "--data-dir", str(data_dir))
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"error: cannot use {str(data_dir)!r}: Permission denied; check")


def test_an_empty_topology_starts_nothing(call: Call, tmp_path: Path, data_dir: Path) -> None:
    (tmp_path / "nothing_to_do.py").write_text('from millstream import App\n\napp = App("idle")\n')
    refused = call("run", str(tmp_path / "nothing_to_do.py"), "--data-dir", str(data_dir))
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("error: the topology has no source; ")
    assert not data_dir.exists()


def test_an_invalid_option_of_run(call: Call, file: Path) -> None:
    assert call("run", str(file), "--until", "tomorrow").exit_code == 2


def test_an_address_that_is_used_is_reported_before_spark_starts(call: Call, file: Path, data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        refused = call("run", str(file), "--web", f"127.0.0.1:{port}", "--data-dir", str(data_dir))
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith(
        f"error: cannot listen on 127.0.0.1:{port}: Address already in use; choose another"
    )


@pytest.mark.spark
def test_from_lines_to_a_table(call: Call, file: Path, data_dir: Path) -> None:
    call("topics", "create", "lines", "--partitions", "2")
    call("produce", "lines", input="all streams\nlead to kafka\nall\n")

    ran = subprocess.run(
        [*MILLSTREAM, "run", str(file), "--until", "caught-up", "--data-dir", str(data_dir)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == f"starting Spark for word-count on {data_dir}\n"
    assert "records 3 in, 5 out" in ran.stdout
    assert "1 batch, 3 records in, 5 out" in ran.stdout.splitlines()[-1]
    assert sorted(call("consume", "word-counts").stdout.splitlines()) == [
        "all\t2",
        "kafka\t1",
        "lead\t1",
        "streams\t1",
        "to\t1",
    ]
    assert call("tables", "get", "words", "all", "--app", "word-count").stdout == "2\n"
    assert "word-count        0  lines     0" in call("groups", "list").stdout


@pytest.mark.spark
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_stops_after_the_current_batch(call: Call, file: Path, data_dir: Path, number: signal.Signals) -> None:
    call("topics", "create", "lines", "--partitions", "2")
    call("produce", "lines", input="a b\n")
    environment = {**os.environ, "MILLSTREAM_DATA_DIR": str(data_dir), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, str(file), "run"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "word-count: running the first batch; 1 record waiting\n"
        assert running.stdout.readline().startswith("word-count: records 1 in, 2 out")
        running.send_signal(number)
        out, errors = running.communicate(timeout=60)
    assert running.returncode == 0, errors
    assert out.splitlines()[-1].startswith("word-count stopped after")


def test_a_run_goes_on_without_its_dashboard_unless_an_address_was_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "web-token").mkdir()
    app = App("shop", data_dir=tmp_path)
    with _served(app, None, partial(WebProcess, tmp_path), quiet=True):
        assert "no dashboard: cannot use" in capsys.readouterr().err
    address = WebAddress(port=0)
    with pytest.raises(StorageError), _served(app, address, partial(WebProcess, tmp_path, None, address), quiet=True):
        raise AssertionError("must not be served")


def test_a_dashboard_that_is_open_to_all_is_refused_before_spark_starts(call: Call, file: Path) -> None:
    refused = call("run", str(file), "--web", "0.0.0.0:0", "--no-token")
    assert refused.exit_code != 0
    assert "requires a token" in refused.stderr
    assert "starting Spark" not in refused.stderr
