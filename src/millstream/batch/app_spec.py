"""An app as the engines see it, without the handles that its topology was written with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millstream.config import Config
from millstream.foundation.loading import AppReference
from millstream.plan.parts import WHOLE, PlanPart
from millstream.plan.topology import Plan, SinkStep, SparkDelivery


@dataclass(frozen=True, kw_only=True)
class AppSettings:
    """Where an app keeps its data, and how it runs."""

    id: str
    config: Config
    data_dir: Path
    broker_url: str | None = None
    """None: the log in the data directory."""

    @property
    def is_durable(self) -> bool:
        """Whether a batch that is done survives a power cut."""
        return self.config.durability == "sync"


@dataclass(frozen=True, kw_only=True)
class AppSpec(AppSettings):
    """Everything that is needed to run an app."""

    plan: Plan
    deliveries: Mapping[str, SparkDelivery | SinkStep]
    """The ``to_spark`` functions and the sinks, by topic."""
    sources: Mapping[str, Any] = field(default_factory=dict)
    """The sources by name."""
    part: PlanPart = WHOLE
    """The part of the app's topology that ``plan`` is."""
    reference: AppReference | None = None
    """Where workers import the topology from; None if the app is not a variable of a module."""
    sql: Mapping[str, Any] | None = None
    """What SQL statements define in the app, as data for other processes; None: it has none."""
