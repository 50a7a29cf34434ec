"""Test connectors: sources and sinks in memory, and the kits that every connector has to pass."""

from __future__ import annotations

from millstream.testing.connectors.memory import MemorySink, MemorySource
from millstream.testing.connectors.sink_kit import SINK_CASES, SinkTarget, check_sink
from millstream.testing.connectors.source_kit import SOURCE_CASES, SourceSystem, check_source

__all__ = [
    "SINK_CASES",
    "SOURCE_CASES",
    "MemorySink",
    "MemorySource",
    "SinkTarget",
    "SourceSystem",
    "check_sink",
    "check_source",
]
