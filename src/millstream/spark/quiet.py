"""Keep PySpark and Py4J from printing stack traces when the JVM ends; the batch that fails reports it in a sentence."""

from __future__ import annotations

import logging
from typing import Any

import py4j.java_gateway
from pyspark import SparkContext


def silence_lost_connections(context: SparkContext) -> None:
    """Send messages about lost connections to the logger of Py4J, which prints nothing unless it is configured."""
    gateway: Any = py4j.java_gateway
    gateway.logging = logging.getLogger("py4j.java_gateway")  # it logs to the root, and so prints, without a handler
    accumulators: Any = context._accumulatorServer
    accumulators.handle_error = _ignore


def _ignore(*_: object) -> None:
    pass
