"""What a job tells its workers: everything small that they need to find the topology and run their tasks."""

from __future__ import annotations

import msgspec

from millstream.batch.batch import Batch
from millstream.batch.resident import Residence
from millstream.broker import TopicConfig
from millstream.foundation.loading import AppReference
from millstream.state.task import StateVersion
from millstream.task.policy import Policies


class AppHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The part that stays the same for all batches of a run."""

    app: str
    lineage: str
    reference: AppReference | None
    pickled: bytes
    """The topology of an app that cannot be imported (notebooks, the interpreter), else empty."""
    fingerprint: str
    partitions: tuple[int, ...]
    widths: tuple[int, ...]
    """Spark tasks on each level."""
    broker: str
    state_dir: str
    policies: Policies
    caching: bool
    durable: bool
    new_topic: TopicConfig | None
    checkpoint: str | None = None
    snapshot_every: int = 100


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
