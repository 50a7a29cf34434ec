"""Secrets are neither printed nor written, after a run and many failures with full debug output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kafka.certificates import Certificates
from tests.kafka.secure import PASSWORD, sasl_url

from millstream.testing.kafka import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(300)]

PROGRAM = """
import logging
from millstream import App, Config

logging.basicConfig(level=logging.DEBUG)
spark = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": "EVENTS"}
app = App("canary", config=Config(partitions=1, spark=spark))
app.stream("canary-in", value=str).map_values(str.upper).to("canary-out")

if __name__ == "__main__":
    app.main()
"""


def test_the_secret_is_not_printed_or_written_anywhere(
    secure: Cluster, certificates: Certificates, tmp_path: Path
) -> None:
    events = tmp_path / "events"
    events.mkdir()
    program = tmp_path / "canary.py"
    program.write_text(PROGRAM.replace("EVENTS", events.as_uri()))
    url = sasl_url(secure, certificates.ca, "SCRAM-SHA-512", "env:CANARY_SECRET") + "&debug=all"
    wrong = sasl_url(secure, certificates.ca, "SCRAM-SHA-512", "env:WRONG_SECRET") + "&debug=all"
    commands = [
        ["topics", "create", "canary-in", "--partitions", "1", "--broker", url],
        ["produce", "canary-in", "--broker", url],
        ["run", "--until", "caught-up", "--no-web", "--broker", url],
        ["describe", "--broker", url],
        ["consume", "canary-out", "--from-beginning", "--broker", url],
        ["groups", "list", "--broker", url],
        ["topics", "list", "--broker", wrong, "--debug"],
        ["run", "--until", "caught-up", "--no-web", "--broker", wrong],
    ]
    outputs = [_run(program, command, tmp_path) for command in commands]
    assert "HELLO" in outputs[4]
    assert "AccessDeniedError" in outputs[6]
    assert len(outputs[2]) > 10_000, "debug=all must produce much output"
    secrets = (PASSWORD, "canary-wrong-pw")
    for command, text in zip(commands, outputs, strict=True):
        assert not any(secret in text for secret in secrets), command
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.is_relative_to(events) for path in written)
    for path in written:
        assert not any(secret.encode() in path.read_bytes() for secret in secrets), path


def _run(program: Path, command: list[str], directory: Path) -> str:
    environment = {
        **os.environ,
        "CANARY_SECRET": PASSWORD,
        "WRONG_SECRET": "canary-wrong-pw",
        "MILLSTREAM_DATA_DIR": str(directory / "data"),
    }
    ran = subprocess.run(
        [sys.executable, str(program), *command],
        env=environment,
        input="hello\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ran.stdout + ran.stderr
