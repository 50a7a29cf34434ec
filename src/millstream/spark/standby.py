"""Stand by for an app with a started Spark, so that taking over takes as little time as possible."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import closing
from typing import Any

from millstream.admin.changelogs import has_changelogs
from millstream.admin.standby import Standby
from millstream.batch.app_spec import AppSpec
from millstream.broker_urls import open_broker
from millstream.errors import DefinitionError
from millstream.spark.session import spark_context


def stand_by(spec: AppSpec, on_step: Callable[[str], None]) -> bool:
    """Wait until no run of the app is alive; False if a signal ended the wait. Call it in the main thread."""
    with closing(open_broker(spec.broker_url, spec.data_dir, durability=spec.config.durability)) as broker:
        if not has_changelogs(spec, broker):
            raise DefinitionError(
                f"app {spec.id!r} has no changelogs that a standby could continue from",
                hint="use broker=kafka://… and leave changelogs on",
            )
        spark_context(spec.config)
        standby = Standby(spec, broker, on_step)

        def stop(*_: Any) -> None:
            standby.stopping.set()

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            return standby.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
