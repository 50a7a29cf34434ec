"""A fill: tables of an app that are being computed from the beginning of their topics, and how far that has come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from millstream.batch.journal import Journal
from millstream.broker import Broker
from millstream.foundation.damage import damaged
from millstream.foundation.paths import fill_dir, journal_dir
from millstream.foundation.typed_decoding import decode_json
from millstream.plan.parts import PlanPart


class Fill(msgspec.Struct, frozen=True, kw_only=True):
    """A fill that is in progress; it is stored, so that the next start continues it."""

    tables: tuple[str, ...]
    filled: tuple[str, ...]
    """The tables, and new steps with state that they depend on."""
    plan: dict[str, Any]

    @property
    def computed(self) -> PlanPart:
        """The part of the plan that computes the tables."""
        return PlanPart(filled=self.filled, is_fill=True)

    @property
    def remaining(self) -> PlanPart:
        """The part of the plan that runs meanwhile."""
        return PlanPart(filled=self.filled)


class FillProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a fill has come, in records of the topics that it reads."""

    tables: tuple[str, ...]
    done: int
    total: int

    def __str__(self) -> str:
        percent = f"{100 * self.done / self.total:.0f} %" if self.total else "0 %"
        return f"filling {', '.join(self.tables)}: {self.done:,} of {self.total:,} records ({percent})"


def stored_fill(data_dir: Path, app: str) -> Fill | None:
    """Return the fill that is in progress."""
    path = fill_dir(data_dir, app) / "fill.json"
    if not path.exists():
        return None
    try:
        return decode_json(path.read_bytes(), Fill)
    except msgspec.DecodeError as error:
        raise damaged(path, f"it cannot be decoded ({error})") from error


def fill_progress(data_dir: Path, app: str, broker: Broker | None = None) -> FillProgress | None:
    """Return the progress of the fill of an app, or None if there is none; without a broker topics begin at 0."""
    fill = stored_fill(data_dir, app)
    if fill is None:
        return None
    target = Journal(journal_dir(data_dir, app), readonly=True).read()[0].positions
    done = Journal(fill_dir(data_dir, app) / "journal", readonly=True).read()[0].positions
    topics = {topic for stage in fill.plan["stages"] for topic in stage["topics"]}
    offsets = {} if broker is None else {topic: broker.offsets(topic) for topic in topics}
    total = read = 0
    for name, offset in target.items():
        topic, _, partition = name.rpartition("/")
        if topic in topics:
            begin = offsets[topic][int(partition)].begin if offsets else 0
            total += max(0, offset - begin)
            read += max(0, min(offset, done.get(name, begin)) - begin)
    return FillProgress(tables=fill.tables, done=read, total=total)
