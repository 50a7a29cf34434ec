"""Two runs of one app on one state: the second is rejected, even while the first is suspended."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.crash.trials import Trials, trial_seed

from millstream import App
from millstream.errors import AlreadyRunningError
from millstream.log import EmbeddedLog

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.timeout(600)]


def test_a_suspended_run_keeps_its_lock_and_continues_when_it_is_resumed(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        trials = Trials(tmp_path, log, trial_seed(), "spark", ["two_levels"])
        victim = trials.victim()
        assert victim.has_recovered()
        victim.go()
        trials.feeder.feed(300)
        trials.wait_for_output("two_levels-out")
        os.kill(victim.process.pid, signal.SIGSTOP)
        other = App("two_levels", data_dir=tmp_path)
        other.stream("events").to("nowhere")
        trials.feeder.feed(300)
        with pytest.raises(AlreadyRunningError, match=f"process {victim.process.pid}"):
            other.start()
        os.kill(victim.process.pid, signal.SIGCONT)
        victim.process.terminate()
        assert victim.process.stdout is not None
        output = victim.process.stdout.read()
        victim.kill()
        assert output == "drained\n"
        result = trials.result()
    assert result.is_correct, result.notes
