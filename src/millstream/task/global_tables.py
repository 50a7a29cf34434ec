"""Global tables in a process: advance their copies to the offsets of a batch, and open them for its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from millstream.broker import Broker
from millstream.foundation.blocks import rows_of
from millstream.foundation.object_codec import value_codec
from millstream.plan.sources import GlobalTableSource
from millstream.state.copies import CopyVersion, LoadResult, LoadRows, Offsets, Rows, TableCopy
from millstream.task.inputs import DecodedChunk, InputDecoder
from millstream.task.policy import Policies
from millstream.task.report import TaskReport

NO_TASK = -1
"""The task number in a report about work that no task has done."""


def open_copy(node: GlobalTableSource, state_dir: Path, *, sync: bool) -> TableCopy:
    """Open the copy of a global table on this host."""
    assert node.name is not None
    return TableCopy(state_dir / node.name / "0", node.name, value_codec(node.value), sync=sync)


def advance_copy(
    node: GlobalTableSource, copy: TableCopy, offsets: Offsets, batch: int, broker: Broker, policies: Policies
) -> CopyVersion:
    """Advance a copy to the offsets of a batch; drop records without a key, apply the error policy to bad ones.

    Dropped records are counted. There are no dead letters: a copy is loaded on each host, and again if it was lost.
    """
    return copy.advance(offsets, batch, _loader(node, offsets, broker, policies))


def _loader(node: GlobalTableSource, offsets: Offsets, broker: Broker, policies: Policies) -> LoadRows:
    topic = node.topics[0]

    def load(start: Offsets, write: Callable[[Rows], None]) -> LoadResult:
        dropped: Counter[str] = Counter()

        def reject(_chunk: DecodedChunk, _row: int, error: Exception) -> None:
            if policies.on_decode_error == "fail":
                raise error
            dropped[f"{node.name}: error"] += 1

        decoder, records = InputDecoder(node.key, node.value, None, reject), 0
        first_offsets = [partition.begin for partition in broker.offsets(topic)]
        for partition, stop in enumerate(offsets):
            for chunk in broker.read(topic, partition, max(start[partition], first_offsets[partition]), stop):
                decoded = decoder.decode(topic, partition, rows_of(chunk.block), chunk.offsets)
                rows = list(zip(decoded.keys, decoded.values, decoded.timestamps, strict=True))
                records += len(chunk.offsets)
                write(row for row in rows if row[0] is not None)
                keyless = decoded.keys.count(None)
                if keyless:
                    dropped[f"{node.name}: null_key"] += keyless
        return LoadResult(records, dict(dropped))

    return load


def global_tables_report(versions: Mapping[str, CopyVersion], batch: int) -> TaskReport | None:
    """Report what a batch did to global tables, None if nothing; the same for each call with that batch."""
    changed = {name: version for name, version in versions.items() if version.batch == batch}
    if not changed:
        return None
    dropped: Counter[str] = Counter()
    for version in changed.values():
        dropped.update(version.dropped)
    return TaskReport(
        task=NO_TASK,
        version=batch,
        records_in=sum(version.records for version in changed.values()),
        dropped=dict(dropped),
        rows={name: version.rows for name, version in changed.items()},
    )
