import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.cli.conftest import Call, Fill

MILLSTREAM = [sys.executable, "-c", "from millstream.cli.main import main; main()"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_the_dashboard_is_served_until_a_signal(fill: Fill, data_dir: Path, number: signal.Signals) -> None:
    fill("lines", (b"a", b"hello", 0))
    environment = {**os.environ, "MILLSTREAM_DATA_DIR": str(data_dir)}
    with subprocess.Popen(
        [*MILLSTREAM, "ui", "--web", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        assert running.stderr is not None
        line = running.stderr.readline()
        assert line.startswith("dashboard: http://127.0.0.1:")
        link = line.split()[-1]
        url, browser = link.partition("/login")[0], urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        browser.open(link).close()
        with browser.open(f"{url}/topics") as page:
            assert b"lines" in page.read()
        assert running.stderr.readline().startswith("the link logs in once; the token is in ")
        running.send_signal(number)
        _, rest = running.communicate(timeout=60)
    assert (running.returncode, rest) == (0, "")


def test_an_address_on_the_network_comes_with_a_token_and_a_warning(fill: Fill, data_dir: Path) -> None:
    fill("lines")
    environment = {**os.environ, "MILLSTREAM_DATA_DIR": str(data_dir)}
    with subprocess.Popen(
        [*MILLSTREAM, "ui", "--web", "0.0.0.0:0"], stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        assert running.stderr is not None
        output = "".join(running.stderr.readline() for _ in range(3))
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
    assert f"the token is in {data_dir / 'web-token'}" in output
    assert (data_dir / "web-token").read_text().strip() not in output
    assert "warning: open to the network" in output


def test_the_data_directory_must_exist(call: Call, data_dir: Path) -> None:
    refused = call("ui")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"error: there is no data directory {str(data_dir)!r}")


def test_an_invalid_address_is_reported(call: Call, fill: Fill) -> None:
    fill("lines")
    refused = call("ui", "--web", "nonsense:port")
    assert refused.exit_code == 2
    assert "'nonsense:port' is not a valid address" in refused.stderr
