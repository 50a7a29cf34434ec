"""The log compared with a simple model after random operations."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.log.topic import Topic

PARTITIONS = 2
RETENTION_MS = 50
TOMBSTONE_MS = 10**15  # longer than any test, since the model does not know when blobs were appended

rows = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b", b"c", b"d"]),
        st.one_of(st.none(), st.binary(max_size=8)),
        st.integers(0, 100),
    ),
    max_size=6,
)
partitions = st.integers(0, PARTITIONS - 1)


@dataclass
class Model:
    """One partition: records by offset; the blob boundaries at which retention cuts are not modelled."""

    begin: int = 0
    end: int = 0
    records: dict[int, tuple[bytes, bytes | None, int]] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)

    def append(self, new: list[tuple[bytes, bytes | None, int]]) -> None:
        self.records.update(zip(range(self.end, self.end + len(new)), new, strict=True))
        self.end += len(new)

    def cut(self, begin: int) -> None:
        self.begin = begin
        self.records = {offset: record for offset, record in self.records.items() if offset >= begin}

    def compact(self) -> None:
        latest = {record[0]: offset for offset, record in sorted(self.records.items())}
        self.records = {offset: self.records[offset] for offset in sorted(latest.values())}


class LogMachine(RuleBasedStateMachine):
    compact = False
    retention_ms: int | None = None

    @initialize()
    def start(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.log = EmbeddedLog(self.directory, durability="os")
        config = TopicConfig(
            partitions=PARTITIONS,
            compact=self.compact,
            retention_ms=self.retention_ms,
            tombstone_retention_ms=TOMBSTONE_MS,
        )
        self.log.create_topic("t", config)
        self.model = [Model() for _ in range(PARTITIONS)]

    @rule(rows=rows, partition=partitions)
    def append(self, rows: list[tuple[bytes, bytes | None, int]], partition: int) -> None:
        assert self.log.append([_output(partition, rows)], acks="written") == [self.model[partition].end]
        self.model[partition].append(rows)

    @rule(first=rows, second=rows, sequence=st.integers(0, 5), producer=st.sampled_from("pq"))
    def append_once(
        self,
        first: list[tuple[bytes, bytes | None, int]],
        second: list[tuple[bytes, bytes | None, int]],
        sequence: int,
        producer: str,
    ) -> None:
        self.log.append_once(producer, sequence, [_output(0, first), _output(1, second)], acks="written")
        for partition, new in zip(self.model, (first, second), strict=True):
            if partition.sequences.get(producer, -1) < sequence:
                partition.sequences[producer] = sequence
                partition.append(new)

    @rule(partition=partitions, data=st.data())
    def delete_before(self, partition: int, data: st.DataObject) -> None:
        model = self.model[partition]
        offset = data.draw(st.integers(0, model.end))
        self.log.delete_before("t", partition, offset)
        model.cut(max(offset, model.begin))

    @rule(partition=partitions, data=st.data())
    def read_range(self, partition: int, data: st.DataObject) -> None:
        model = self.model[partition]
        start = data.draw(st.integers(model.begin, model.end))
        end = data.draw(st.integers(start, model.end + 2))
        expected = [(o, *record) for o, record in sorted(model.records.items()) if start <= o < end]
        assert _records(self.log, partition, start, end) == expected
        with self.log.view("t", partition, start, end) as chunks:
            assert [offset for chunk in chunks for offset in chunk.offsets] == [record[0] for record in expected]

    @rule(partition=partitions, timestamp=st.integers(0, 101))
    def look_up_time(self, partition: int, timestamp: int) -> None:
        offsets = (o for o, record in sorted(self.model[partition].records.items()) if record[2] >= timestamp)
        assert self.log.offset_at("t", partition, timestamp) == next(offsets, None)

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = EmbeddedLog(self.directory, durability="os")

    @precondition(lambda self: self.retention_ms is None)
    @rule()
    def clean(self) -> None:
        self.log.clean(now=0)
        if self.compact:
            for model in self.model:
                model.compact()

    @precondition(lambda self: self.retention_ms is not None)
    @rule(now=st.integers(0, 160))
    def expire(self, now: int) -> None:
        self.log.clean(now=now)
        for partition, model in enumerate(self.model):
            begin = self.log.offsets("t")[partition].begin
            assert begin >= model.begin
            deleted = [record for offset, record in model.records.items() if offset < begin]
            if begin > model.begin:
                assert all(record[2] < now - RETENTION_MS for record in deleted)
                model.cut(begin)

    @rule()
    def read_all(self) -> None:
        for partition, model in enumerate(self.model):
            expected = [(o, *record) for o, record in sorted(model.records.items())]
            assert _records(self.log, partition, model.begin, model.end) == expected

    @invariant()
    def ends_agree(self) -> None:
        if hasattr(self, "log"):
            modelled = [(model.begin, model.end) for model in self.model]
            assert [(offsets.begin, offsets.end) for offsets in self.log.offsets("t")] == modelled

    @invariant()
    def sizes_add_up(self) -> None:
        if hasattr(self, "log"):
            topic: Topic = self.log._catalog.get("t")
            with topic.snapshot() as snapshot:
                for partition in range(PARTITIONS):
                    stored = sum(span.bytes for span in snapshot.spans(partition, 0))
                    assert snapshot.bounds(partition).bytes == stored

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
            shutil.rmtree(self.directory)


class CompactedMachine(LogMachine):
    compact = True


class ExpiringMachine(LogMachine):
    retention_ms = RETENTION_MS


def _output(partition: int, rows: list[tuple[bytes, bytes | None, int]]) -> Output:
    return Output("t", partition, block_of([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows]))


def _records(log: EmbeddedLog, partition: int, start: int, end: int) -> list[tuple[int, bytes, bytes | None, int]]:
    return [
        row
        for chunk in log.read("t", partition, start, end)
        for row in zip(chunk.offsets, *(chunk.block.column(i).to_pylist() for i in range(3)), strict=True)
    ]


_quick = settings(max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))
test_plain = LogMachine.TestCase
test_plain.settings = _quick
test_compacted = CompactedMachine.TestCase
test_compacted.settings = _quick
test_expiring = ExpiringMachine.TestCase
test_expiring.settings = _quick
