"""Alerts and notifications: processors that need a key."""

from __future__ import annotations

from typing import Any

from millstream.operators.processors import Children, process_of
from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.alerts import Alert, Notify


@operator.register(Alert)
@operator.register(Notify)
def _keyed(node: Alert | Notify, children: Children, runtime: Runtime) -> Process:
    process = process_of(node, children, runtime)

    def process_keyed(key: Any, value: Any, timestamp: int) -> None:
        if key is None:
            runtime.drop(node, "null_key")
        else:
            process(key, value, timestamp)

    return process_keyed
