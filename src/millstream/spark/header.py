"""What a job tells its workers: everything small that they need to find the topology and run their tasks."""

from __future__ import annotations

import msgspec

from millstream.batch.assembly import TaskSettings
from millstream.batch.batch import Batch
from millstream.batch.resident import Residence
from millstream.foundation.loading import AppReference
from millstream.state.task import StateVersion


class AppHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The part that stays the same for all batches of a run."""

    tasks: TaskSettings
    reference: AppReference | None
    pickled: bytes
    """The topology of an app that cannot be imported (notebooks, the interpreter), else empty."""
    fingerprint: str
    partitions: tuple[int, ...]
    widths: tuple[int, ...]
    """Spark tasks on each level."""
    broker: str


class JobHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The whole, sent with each job."""

    app: AppHeader
    plan: Batch
    versions: dict[str, StateVersion]


class ResidentHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a resident task is sent instead."""

    app: AppHeader
    terms: Residence


encode_header = msgspec.msgpack.Encoder().encode
decode_header = msgspec.msgpack.Decoder(JobHeader).decode
decode_resident_header = msgspec.msgpack.Decoder(ResidentHeader).decode
