"""Some of the trials of ``./dev crash --mode cluster``: hosts are network namespaces, and parts of them fail."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.crash.hosts import namespaces_missing
from tests.crash.trials import ROOT, trial_seed

FAULTS = ("executor", "cut", "driver")
SECONDS = 90.0
"""After which no other fault begins: a busy machine gets fewer trials, but at least one."""


@pytest.mark.crash
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_an_app_on_three_hosts_loses_and_doubles_nothing_when_parts_of_them_fail() -> None:
    if reason := namespaces_missing():
        pytest.skip(reason)
    seed = trial_seed()
    arguments = ["--faults", *FAULTS, "--trials", str(len(FAULTS)), "--apps", "chance", "--longest-cut", "6"]
    command = [sys.executable, "-m", "tests.crash", "--mode", "cluster", *arguments, "--seconds", str(SECONDS)]
    process = subprocess.Popen(
        [*command, "--seed", str(seed)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        output, _ = process.communicate(timeout=540)
    except subprocess.TimeoutExpired:
        process.terminate()  # it removes the hosts
        output, _ = process.communicate()
    print(output[-8000:])
    assert process.returncode == 0
    assert "losses=0 duplicates=0 disagreements=0" in output
