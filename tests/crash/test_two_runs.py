"""Two runs of one app on one state: the second is refused, also while the first is stopped and may wake up."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.crash.arena import Arena, seeded

from millstream import App
from millstream.errors import AlreadyRunningError
from millstream.log import EmbeddedLog

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.timeout(600)]


def test_a_run_that_sleeps_keeps_its_state_and_goes_on_when_it_wakes_up(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        arena = Arena(tmp_path, log, seeded(), "spark", ["two_levels"])
        victim = arena.victim()
        assert victim.has_recovered()
        victim.go()
        arena.feeder.feed(300)
        arena.wait_for_output("two_levels-out")
        os.kill(victim.process.pid, signal.SIGSTOP)
        other = App("two_levels", data_dir=tmp_path)
        other.stream("events").to("nowhere")
        arena.feeder.feed(300)
        with pytest.raises(AlreadyRunningError, match=f"process {victim.process.pid}"):
            other.start()
        os.kill(victim.process.pid, signal.SIGCONT)
        victim.process.terminate()
        assert victim.process.stdout is not None
        said = victim.process.stdout.read()
        victim.kill()
        assert said == "drained\n"
        verdict = arena.verdict()
    assert verdict.is_good, verdict.notes
