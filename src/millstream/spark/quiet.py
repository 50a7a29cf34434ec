"""Keep PySpark and Py4J from printing stack traces when the JVM ends or a start is interrupted, which we report."""

from __future__ import annotations

import logging
from typing import Any

import py4j.java_gateway
from pyspark import SparkContext


def silence_py4j() -> None:
    """Send messages about interrupts and lost connections to the logger of Py4J, which prints nothing by default."""
    gateway: Any = py4j.java_gateway
    gateway.logging = logging.getLogger("py4j.java_gateway")  # it logs to the root, and so prints, without a handler


def silence_lost_connections(context: SparkContext) -> None:
    """Ignore that the JVM closes its connection to the server of accumulators."""
    accumulators: Any = context._accumulatorServer
    accumulators.handle_error = _ignore


def _ignore(*_: object) -> None:
    pass
