"""The journal of a source returns the records of its last intake as they were committed."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.broker import Output
from millstream.connect.source_journal import SourceJournal, SourceProgress
from millstream.foundation import storage
from millstream.foundation.blocks import block_of, to_buffer, to_bytes
from millstream.foundation.storage import close_environments
from millstream.task.outbox import topic_outputs


def test_an_intake_that_needs_a_larger_map_is_stored_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_FIRST_MAP_BYTES", 1 << 20)
    block = block_of([b"k"] * 3, [b"a" * 500_000, None, b"c" * 500_000], [1, 2, 3])
    outputs = [Output("orders", partition, block, to_buffer(block)) for partition in range(4)]
    journal = SourceJournal(tmp_path / "source")
    journal.commit(SourceProgress(sequence=1, position=b"7", records=12), outputs)
    close_environments(tmp_path)
    journal = SourceJournal(tmp_path / "source")
    assert journal.read() == SourceProgress(sequence=1, position=b"7", records=12)
    stored = topic_outputs(journal.outbox())
    assert [(output.topic, output.partition) for output in stored] == [("orders", partition) for partition in range(4)]
    assert all(output.block.equals(block) and output.data == to_bytes(block) for output in stored)
    close_environments(tmp_path)
