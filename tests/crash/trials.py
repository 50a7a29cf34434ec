"""Crash trials: feed an app, kill the process that runs it, and compare its results with the oracle."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from tests.crash.events import Feeder
from tests.crash.oracle import CHECKS, TrialResult, check
from tests.crash.power import Disk

from millstream.broker import Broker
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.records import TopicPartition

ROOT = Path(__file__).parents[2]
Mode = Literal["light", "behind", "spark"]


def trial_seed() -> int:
    """Return the seed of a trial and print it: MILLSTREAM_SEED, or a random number."""
    seed = int(os.environ.get("MILLSTREAM_SEED", random.randrange(1_000_000)))
    print(f"seed {seed}")
    return seed


class Victim:
    """A process that runs the apps and is killed in the end."""

    def __init__(self, directory: Path, mode: Mode, broker: str | None = None, **settings: str) -> None:
        options = {f"MILLSTREAM_CRASH_{name.upper()}": value for name, value in settings.items()}
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "MILLSTREAM_CRASH_DIR": str(directory),
            "MILLSTREAM_BROKER": broker or "",
            **options,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.victim", mode],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def has_recovered(self) -> bool:
        """Wait until it has processed everything; False if it died before."""
        assert self.process.stdout is not None
        return self.process.stdout.readline() == "recovered\n"

    def go(self) -> None:
        """Let it continue."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill the driver only: its workers have to notice that by themselves, as in production."""
        self.process.kill()
        self.process.communicate()


class Trials:
    """Trials on one data directory; the seed determines the input."""

    def __init__(
        self,
        directory: Path,
        broker: Broker,
        seed: int,
        mode: Mode = "light",
        apps: Iterable[str] = CHECKS,
        url: str | None = None,
        **settings: str,
    ) -> None:
        self._settings = settings
        self.directory = directory
        self.broker = broker
        self.mode = mode
        self.apps = tuple(apps)
        self.rng = random.Random(seed)
        self.feeder = Feeder(broker, self.rng)
        self.feeder.create_topics()
        self._url = url

    def victim(self, **settings: str) -> Victim:
        """Start a victim."""
        settings = {**self._settings, **settings}
        return Victim(self.directory, self.mode, self._url, apps=",".join(self.apps), **settings)

    def kill_at_random(self, longest: float) -> None:
        """Let a victim recover, feed it while it runs, and kill it after a random time of up to ``longest`` seconds."""
        victim = self.victim()
        self._feed_until(victim, longest, victim.kill)

    def lose_disk(self) -> None:
        """Lose all that the last victim had on disk; its workers may still be running."""
        close_environments(self.directory / "apps")
        shutil.rmtree(self.directory / "apps", ignore_errors=True)

    def cut_power_at_random(self, disk: Disk, longest: float) -> None:
        """Like ``kill_at_random``, but everything that was not synced at that time is lost too."""
        victim = self.victim(durable="yes")
        try:
            self._feed_until(victim, longest, lambda: os.killpg(victim.process.pid, signal.SIGSTOP))
            disk.take_snapshot()
        finally:
            victim.kill()
        close_environments(self.directory)
        disk.restore_snapshot()
        self.broker = self.feeder.broker = EmbeddedLog(self.directory)

    def _feed_until(self, victim: Victim, longest: float, end: Callable[[], None]) -> None:
        assert victim.has_recovered()
        victim.go()
        timer = threading.Timer(self.rng.uniform(0.0, longest), end)
        timer.start()
        while timer.is_alive():
            self.feeder.feed(self.rng.randrange(1, 100))
            timer.join(self.rng.uniform(0.0, 0.1))

    def die_at(self, point: str, most: int = 2) -> bool:
        """Feed a victim that dies at a failpoint, at one of the first ``most`` hits; return whether it was hit."""
        mark = self.directory / f"hit-{self.rng.randrange(2**32)}"
        self.feeder.feed(self.rng.randrange(200, 400))
        victim = self.victim(point=f"{point}:{self.rng.randint(1, most)}", mark=str(mark))
        if victim.has_recovered():
            victim.go()
            victim.process.terminate()
            assert victim.process.stdout is not None
            victim.process.stdout.read()
        victim.kill()
        return mark.exists()

    def wait_for_output(self, topic: str) -> None:
        """Wait until something was written to a topic."""
        positions = {TopicPartition(topic, number): 0 for number in range(self.broker.topic(topic).partitions)}
        assert self.broker.wait(positions, 120)

    def result(self, before_check: Callable[[], None] = lambda: None) -> TrialResult:
        """Let a victim recover once more, then compare its results with those expected for its input."""
        victim = self.victim()
        recovered = victim.has_recovered()
        victim.kill()
        assert recovered, "the last victim did not recover"
        before_check()
        result = check(self.directory, self.broker, self.feeder.sent, self.apps)
        close_environments(self.directory / "apps")
        return result
