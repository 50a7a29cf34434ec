"""Test topologies in milliseconds, without Spark, threads or a broker."""

from __future__ import annotations

from millstream.testing.context import Forwarded, TestContext
from millstream.testing.driver import TestDriver
from millstream.testing.topic import TestTopic

__all__ = ["Forwarded", "TestContext", "TestDriver", "TestTopic"]
