"""Damaged journals of sinks and sources: a clear error when they are read, and a finding of `millstream doctor`."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.admin.doctor import examine
from millstream.connect.protocols import Sink
from millstream.errors import MillstreamError
from millstream.foundation.storage import close_environments
from millstream.testing.connectors import MemorySink, MemorySource
from millstream.testing.connectors.bench import Bench


def run(bench: Bench, kind: str, sink: Sink) -> None:
    if kind == "sink":
        bench.feed(("a", 1), ("b", 2))
        bench.run_sink(sink)
    else:
        source = MemorySource("shop.orders")
        source.put("shop.orders", "a", {"n": 1})
        bench.run_source(source)


@pytest.mark.parametrize("damage", ["cut", "zeroed", "flipped"])
@pytest.mark.parametrize("kind", ["sink", "source"])
def test_a_damaged_journal_is_named(kind: str, damage: str, tmp_path: Path) -> None:
    bench, sink = Bench(tmp_path), MemorySink()
    run(bench, kind, sink)
    close_environments(tmp_path)
    assert [finding for finding in examine(tmp_path) if finding.problem] == []
    (file,) = [Path(tmp_path / finding.path) / "data.mdb" for finding in examine(tmp_path) if finding.kind == kind]
    data = bytearray(file.read_bytes())
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "zeroed":
        data[: len(data)] = bytes(len(data))
    else:
        data[8192:] = bytes(byte ^ 0x55 for byte in data[8192:])
    file.write_bytes(data)
    assert [finding.kind for finding in examine(tmp_path) if finding.problem] == [kind]
    close_environments(tmp_path)
    with pytest.raises(MillstreamError):
        run(bench, kind, sink)
    close_environments(tmp_path)
