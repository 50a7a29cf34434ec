"""Three of the trials of ``./dev crash --mode cluster``: hosts are network namespaces, and parts of them fail."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.crash.hosts import namespaces_missing
from tests.crash.trials import ROOT, trial_seed

FAULTS = ("executor", "cut", "driver")


@pytest.mark.crash
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(280)
def test_an_app_on_three_hosts_loses_and_doubles_nothing_when_parts_of_them_fail() -> None:
    if reason := namespaces_missing():
        pytest.skip(reason)
    arguments = ["--faults", *FAULTS, "--trials", str(len(FAULTS)), "--apps", "chance", "--longest-cut", "6"]
    command = [sys.executable, "-m", "tests.crash", "--mode", "cluster", *arguments, "--seed", str(trial_seed())]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(output.stdout, output.stderr[-5000:])
    assert output.returncode == 0
    assert f"N={len(FAULTS)} " in output.stdout
    assert "losses=0 duplicates=0 disagreements=0" in output.stdout
