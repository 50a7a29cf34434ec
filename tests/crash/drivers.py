"""The process that runs the apps of cluster trials, on one of the hosts; another can take over."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from tests.crash.hosts import Host
from tests.crash.trials import ROOT
from tests.spark.standalone import descendants

# Half of the cores of each worker are left for another driver: a Spark master does not take the cores of a driver that
# was cut off. The timeouts are short, so that trials are.
_SPARK = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "3",
    "spark.executor.heartbeatInterval": "2s",
    "spark.network.timeout": "20s",
    "spark.network.timeoutInterval": "2s",
}


TAKING_OVER = "taking over\n"


class Driver:
    """A process that runs the apps on one host, or stands by for them."""

    def __init__(
        self,
        host: Host,
        master: str,
        broker: str,
        apps: Sequence[str],
        mode: Literal["cluster", "standby"] = "cluster",
        point: str = "",
    ) -> None:
        """Start the process; it dies at a failpoint, ``NAME:N``, if one is given."""
        self.host = host
        self._data_dir = host.directory / f"data-{mode}"
        environment = {
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "MILLSTREAM_CRASH_DIR": str(self._data_dir),
            "MILLSTREAM_CRASH_APPS": ",".join(apps),
            "MILLSTREAM_CRASH_MASTER": master,
            "MILLSTREAM_CRASH_SPARK": json.dumps(_SPARK),
            "MILLSTREAM_BROKER": broker,
            "MILLSTREAM_CRASH_POINT": point,
            "MILLSTREAM_CRASH_MARK": str(host.directory / f"hit-{uuid.uuid4().hex}"),
        }
        self.process = host.start([sys.executable, "-m", "tests.crash.victim", mode], environment)
        self._steps = threading.Event()
        self._has_taken_over = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            (self._has_taken_over if line == TAKING_OVER else self._steps).set()

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def wait_until_standing_by(self, seconds: float) -> None:
        """Wait until a standby has a copy of the state."""
        assert self._steps.wait(seconds), f"the standby has no copy of the state:\n{self.output()}"

    def wait_until_taken_over(self, seconds: float) -> None:
        """Wait until a standby has noticed that the driver before it is gone."""
        assert self._has_taken_over.wait(seconds), f"the standby does not take over:\n{self.output()}"

    def output(self) -> str:
        """Return the end of what drivers of this host have logged, and what each app is doing."""
        log = (self.host.directory / "output.log").read_text()[-6000:]
        activities = sorted(self._data_dir.glob("apps/*/activity.json"))
        steps = f"this driver has {'' if self._has_taken_over.is_set() else 'not '}taken over"
        return "\n".join([log, steps, *(f"{path.parent.name}: {path.read_text()}" for path in activities)])

    def kill(self) -> None:
        """Kill the process and its JVM, as if they had run out of memory."""
        for process in [*descendants(self.process.pid), self.process.pid]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()
