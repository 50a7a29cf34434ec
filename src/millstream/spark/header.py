"""What is sent to workers with each job: how to find the topology, and which batch to run."""

from __future__ import annotations

import msgspec

from millstream.batch.assembly import TaskSettings
from millstream.batch.batch import Batch
from millstream.batch.resident import ResidentSettings
from millstream.foundation.loading import AppReference
from millstream.plan.parts import PlanPart
from millstream.spark.placement import Slots
from millstream.spark.restore_progress import ProgressAddress
from millstream.state.task import StateVersion


class AppHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The part that is the same for all batches of a run."""

    tasks: TaskSettings
    reference: AppReference | None
    pickled: bytes
    """The plan of an app that cannot be imported (notebooks, the interpreter), else empty."""
    paths: tuple[str, ...]
    """Where the modules that a pickled plan uses can be imported from."""
    part: PlanPart
    """The part of an imported plan that runs."""
    fingerprint: str
    partitions: tuple[int, ...]
    slots: Slots
    """By level, the tasks of each Spark task; on a cluster they change with its hosts."""
    broker: str
    progress: ProgressAddress | None = None
    """Where workers of a cluster report how far they have restored their states."""

    @property
    def width(self) -> int:
        """The largest number of Spark tasks on a level."""
        return max(len(level) for level in self.slots)


class JobHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a job that runs one batch."""

    app: AppHeader
    batch: Batch
    versions: dict[str, StateVersion]


class ResidentHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a job that runs a resident task."""

    app: AppHeader
    settings: ResidentSettings


encode_header = msgspec.msgpack.Encoder().encode
decode_header = msgspec.msgpack.Decoder(JobHeader).decode
decode_resident_header = msgspec.msgpack.Decoder(ResidentHeader).decode
