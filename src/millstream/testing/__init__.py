"""Test topologies in milliseconds, without Spark, threads or a broker."""

from __future__ import annotations

from millstream.testing.driver import TestDriver

__all__ = ["TestDriver"]
