"""What a change of the topology means for the state there is: compared stage by stage, before anything runs.

A stage goes on with its state as long as its stores mean the same: same kind of step, same windows, same ready
aggregation, same keys, same number of partitions. Stateless steps, sinks and other stages may come and go around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Fate = Literal["reused", "new", "dropped", "incompatible"]
Shape = dict[str, Any]


class Retired(msgspec.Struct, frozen=True, kw_only=True):
    """Stores that are not in the topology any more, but still on disk; ``batch`` was their last."""

    stores: dict[str, Shape]
    partitions: int
    batch: int


class StoredPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as it is stored with the state."""

    plan: dict[str, Any] = {}
    partitions: dict[str, int] = {}
    retired: dict[str, Retired] = {}

    @property
    def stages(self) -> dict[str, dict[str, Any]]:
        """The stages by name, without the further rounds of those that have several."""
        return {stage["name"]: stage for stage in self.plan.get("stages", []) if not stage.get("round")}

    @property
    def homes(self) -> dict[str, str]:
        """In which stage each store lies."""
        return {store: name for name, stage in self.stages.items() for store in stage.get("stores", {})}

    @property
    def nodes(self) -> dict[str, dict[str, Any]]:
        return {node["name"]: node for node in self.plan.get("nodes", [])}

    @property
    def edges(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """The edges by name, each with the stage that reads it and its node."""
        nodes = self.nodes
        return {edge: (name, nodes[edge]) for name, stage in self.stages.items() for edge in stage["reads"]}


class StageChange(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a stage, and why."""

    stage: str
    fate: Fate
    was: str | None = None
    """The name under which its state lies now, if that is another one."""
    reasons: list[str] = []
    """Why it is incompatible."""
    notes: list[str] = []

    def __str__(self) -> str:
        told = [*([f"state of {self.was!r} is taken over"] if self.was else []), *self.reasons, *self.notes]
        return f"{self.fate:<12}  {self.stage}" + (f": {'; '.join(told)}" if told else "")


def compare(before: StoredPlan, now: StoredPlan) -> list[StageChange]:
    """Return what becomes of each stage, new ones in their order, then those that are dropped."""
    changes = [_stage_change(name, before, now) for name in now.stages]
    kept = {change.was or change.stage for change in changes}
    for name, stage in before.stages.items():
        if name not in kept:
            stores = ", ".join(stage.get("stores", {}))
            notes = [f"the rows of {stores} stay on disk and are not kept up"] if stores else []
            changes.append(StageChange(stage=name, fate="dropped", notes=notes))
    return changes


def is_unchanged(changes: list[StageChange]) -> bool:
    """Whether nothing is to be told."""
    return all(change.fate == "reused" and not (change.was or change.notes) for change in changes)


def _stage_change(name: str, before: StoredPlan, now: StoredPlan) -> StageChange:
    stores: dict[str, Shape] = now.stages[name].get("stores", {})
    homes = sorted({before.homes[store] for store in stores if store in before.homes})
    home = homes[0] if homes else name
    retired = before.retired.get(name) if home == name else None
    known: dict[str, Shape] = {
        **(retired.stores if retired else {}),
        **before.stages.get(home, {}).get("stores", {}),
    }
    is_old = home in before.stages
    reasons = [
        *_misplaced(name, homes, before, now),
        *(_differences(store, known[store], shape) for store, shape in stores.items() if store in known),
    ]
    partitions = before.partitions.get(home) if is_old else retired.partitions if retired else None
    count = now.partitions.get(name)
    if any(store in known for store in stores) and partitions not in (None, count):
        reasons.append(f"it has {partitions} partitions and would have {count}")
    reasons = [reason for reason in reasons if reason]
    fate: Fate = "incompatible" if reasons else "reused" if is_old or (retired and stores) else "new"
    return StageChange(
        stage=name,
        fate=fate,
        was=home if home != name and not reasons else None,
        reasons=reasons,
        notes=[] if reasons else [*_notes(stores, known, retired), *_steps(name, home, before, now)],
    )


def _misplaced(name: str, homes: list[str], before: StoredPlan, now: StoredPlan) -> list[str]:
    """Say why the state of a stage cannot be taken from where it lies."""
    if not homes or homes == [name]:
        return []
    if len(homes) > 1:
        return [f"it would join the state of stages {' and '.join(map(repr, homes))}"]
    heirs = {now.homes[store] for store in before.stages[homes[0]].get("stores", {}) if store in now.homes}
    if len(heirs) > 1:
        return [f"the state of stage {homes[0]!r} would be divided"]
    if name in before.stages or name in before.retired or homes[0] in now.stages:
        return [f"its state lies in stage {homes[0]!r}, and both names are in use"]
    return []


def _differences(store: str, before: Shape, now: Shape) -> str:
    """Say what makes the rows of a store unusable, or nothing; how late records may be does not."""
    for what in ("op", "key", "windows", "ready"):
        old, new = (_without_grace(shape.get(what)) for shape in (before, now))
        if old != new:
            word = {"op": "made by", "key": "keyed as", "windows": "windowed by", "ready": "aggregated by"}[what]
            return f"{store!r} was {word} {_short(old)} and would be {word} {_short(new)}"
    return ""


def _without_grace(value: Any) -> Any:
    return {name: each for name, each in value.items() if name != "grace"} if isinstance(value, dict) else value


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={each}" for name, each in value.items())
    return "nothing" if value is None else str(value)


def _notes(stores: Mapping[str, Shape], known: Mapping[str, Shape], retired: Retired | None) -> list[str]:
    back = [store for store in stores if retired and store in retired.stores]
    added = [store for store in stores if store not in known]
    gone = [store for store in known if store not in stores and not (retired and store in retired.stores)]
    notes = [
        f"{store!r} is read as {shape['value'] or 'it is'}, before as {known[store]['value'] or 'it was'}"
        for store, shape in stores.items()
        if store in known and shape["value"] != known[store]["value"]
    ]
    if back and retired:
        notes.append(f"{', '.join(back)} taken back: nothing since batch {retired.batch} is in it")
    if added:
        notes.append(f"{', '.join(added)} begins empty, with records from now on")
    if gone:
        notes.append(f"{', '.join(gone)} stays on disk and is not kept up")
    return notes


def _steps(name: str, home: str, before: StoredPlan, now: StoredPlan) -> list[str]:
    """Say which steps came and went in a stage that was there before."""
    if home not in before.stages:
        return []
    nodes_then, nodes_now = before.nodes, now.nodes
    then = {each: nodes_then[each]["op"].split("/")[0] for each in before.stages[home]["nodes"]}
    here = {each: nodes_now[each]["op"].split("/")[0] for each in now.stages[name]["nodes"]}
    notes = []
    if added := [f"{verb} {each}" for each, verb in here.items() if then.get(each) != verb]:
        notes.append(f"with {', '.join(added)}")
    if removed := [f"{verb} {each}" for each, verb in then.items() if here.get(each) != verb]:
        notes.append(f"without {', '.join(removed)}")
    return notes
