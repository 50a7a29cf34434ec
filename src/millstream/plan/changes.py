"""What a change of the topology means for existing state: compare plans stage by stage, before anything runs.

A stage keeps its state as long as its stores have the same meaning: same kind of step, same windows, same built-in
aggregation, same keys, same number of partitions. Stateless steps, sinks and other stages can be added and removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Fate = Literal["reused", "new", "dropped", "incompatible"]
Shape = dict[str, Any]


class Retired(msgspec.Struct, frozen=True, kw_only=True):
    """Stores that are no longer in the topology, but still on disk; ``batch`` was their last."""

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
        """The stages by name, without the later rounds of stages that have several."""
        return {stage["name"]: stage for stage in self.plan.get("stages", []) if not stage.get("round")}

    @property
    def stage_of_store(self) -> dict[str, str]:
        """The stage of each store."""
        return {store: name for name, stage in self.stages.items() for store in stage.get("stores", {})}

    @property
    def nodes(self) -> dict[str, dict[str, Any]]:
        return {node["name"]: node for node in self.plan.get("nodes", [])}

    @property
    def edges(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """The edges by name, each with the stage that reads it and with its node."""
        nodes = self.nodes
        return {edge: (name, nodes[edge]) for name, stage in self.stages.items() for edge in stage["reads"]}


class StageChange(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to a stage, and why."""

    stage: str
    fate: Fate
    was: str | None = None
    """The current name of its state, if it differs."""
    merged: list[str] = []
    """The other stages whose state becomes part of it."""
    reasons: list[str] = []
    """Why it is incompatible."""
    notes: list[str] = []

    def __str__(self) -> str:
        states = [name for name in (self.was, *self.merged) if name]
        uses = [f"uses the state of {' and '.join(map(repr, states))}"] if states else []
        details = [*uses, *self.reasons, *self.notes]
        return f"{self.fate:<12}  {self.stage}" + (f": {'; '.join(details)}" if details else "")


def compare(before: StoredPlan, now: StoredPlan) -> list[StageChange]:
    """Return what happens to each stage: those of the new plan in order, then those that are dropped."""
    changes = [_stage_change(name, before, now) for name in now.stages]
    kept = {name for change in changes for name in (change.was or change.stage, *change.merged)}
    for name, stage in before.stages.items():
        if name not in kept:
            stores = ", ".join(stage.get("stores", {}))
            notes = [f"the rows of {stores} stay on disk and are no longer updated"] if stores else []
            changes.append(StageChange(stage=name, fate="dropped", notes=notes))
    return changes


def is_unchanged(changes: list[StageChange]) -> bool:
    """Whether there is nothing to report."""
    return all(change.fate == "reused" and not (change.was or change.merged or change.notes) for change in changes)


def _stage_change(name: str, before: StoredPlan, now: StoredPlan) -> StageChange:
    stores: dict[str, Shape] = now.stages[name].get("stores", {})
    old_stages = _old_stages(name, stores, before)
    old_stage = old_stages[0]
    retired = before.retired.get(name) if old_stage == name else None
    old_stores: dict[str, Shape] = dict(retired.stores if retired else {})
    for old in old_stages:
        old_stores |= before.stages.get(old, {}).get("stores", {})
    is_old = old_stage in before.stages
    reasons = [
        *_conflicts(name, old_stages, before, now),
        *(_difference(store, old_stores[store], shape) for store, shape in stores.items() if store in old_stores),
    ]
    tasks = [before.partitions.get(old) for old in old_stages] if is_old else [retired.partitions if retired else None]
    count = now.partitions.get(name)
    other = {tasks_before for tasks_before in tasks if tasks_before is not None} - {count}
    if other and any(store in old_stores for store in stores):
        reasons.append(f"it has {' and '.join(map(str, sorted(other)))} partitions and would have {count}")
    reasons = [reason for reason in reasons if reason]
    fate: Fate = "incompatible" if reasons else "reused" if is_old or (retired and stores) else "new"
    notes = [*_store_notes(stores, old_stores, retired), *_step_notes(name, old_stages, before, now)]
    return StageChange(
        stage=name,
        fate=fate,
        was=old_stage if old_stage != name and not reasons else None,
        merged=[] if reasons else old_stages[1:],
        reasons=reasons,
        notes=[] if reasons else notes,
    )


def _old_stages(name: str, stores: Mapping[str, Shape], before: StoredPlan) -> list[str]:
    """Return the stages that hold the stores of a stage now; the first is that of its name, if it is one of them."""
    old_stages = {before.stage_of_store[store] for store in stores if store in before.stage_of_store}
    return sorted(old_stages, key=lambda old: (old != name, old)) or [name]


def _conflicts(name: str, old_stages: list[str], before: StoredPlan, now: StoredPlan) -> list[str]:
    """Return why a stage cannot use the state of the stages that hold its stores now."""
    for old_stage in old_stages:
        stores = before.stages.get(old_stage, {}).get("stores", {})
        if len({now.stage_of_store[store] for store in stores if store in now.stage_of_store}) > 1:
            return [f"the state of stage {old_stage!r} would be split"]
        if old_stage != name and old_stage in now.stages:
            return [f"its state is in stage {old_stage!r}, and both names are in use"]
    if name not in old_stages and (name in before.stages or name in before.retired):
        return [f"its state is in stage {old_stages[0]!r}, and both names are in use"]
    return []


def _difference(store: str, before: Shape, now: Shape) -> str:
    """Return what makes the rows of a store unusable, empty if nothing does; the grace period does not matter."""
    verbs = {"op": "created by", "key": "keyed as", "windows": "windowed by", "ready": "aggregated by"}
    verbs |= {"of": "aggregated of"} if "of" in before and "of" in now else {}  # of Python functions it is not known
    for property_, verb in verbs.items():
        old, new = (_without_grace(shape.get(property_)) for shape in (before, now))
        if old != new:
            return f"{store!r} was {verb} {_short(old)} and would be {verb} {_short(new)}"
    return ""


def _without_grace(value: Any) -> Any:
    return {name: item for name, item in value.items() if name != "grace"} if isinstance(value, dict) else value


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={item}" for name, item in value.items())
    return "nothing" if value is None else str(value)


def _store_notes(stores: Mapping[str, Shape], old_stores: Mapping[str, Shape], retired: Retired | None) -> list[str]:
    restored = [store for store in stores if retired and store in retired.stores]
    added = [store for store in stores if store not in old_stores]
    removed = [store for store in old_stores if store not in stores and not (retired and store in retired.stores)]
    notes = [
        f"values of {store!r} are decoded with {shape['value'] or 'the default codec'}, "
        f"before with {old_stores[store]['value'] or 'the default codec'}"
        for store, shape in stores.items()
        if store in old_stores and shape["value"] != old_stores[store]["value"]
    ]
    if restored and retired:
        notes.append(f"{', '.join(restored)} is used again, without the records since batch {retired.batch}")
    if added:
        notes.append(f"{', '.join(added)} starts empty, with records from now on")
    if removed:
        notes.append(f"{', '.join(removed)} stays on disk and is no longer updated")
    return notes


def _step_notes(name: str, old_stages: list[str], before: StoredPlan, now: StoredPlan) -> list[str]:
    """Return which steps were added to an existing stage and removed from it."""
    if old_stages[0] not in before.stages:
        return []
    old_verbs: dict[str, str] = {}
    for old in old_stages:
        old_verbs |= _verbs(before, before.stages[old])
    new_verbs = _verbs(now, now.stages[name])
    notes = []
    if added := [f"{verb} {node}" for node, verb in new_verbs.items() if old_verbs.get(node) != verb]:
        notes.append(f"with {', '.join(added)}")
    if removed := [f"{verb} {node}" for node, verb in old_verbs.items() if new_verbs.get(node) != verb]:
        notes.append(f"without {', '.join(removed)}")
    return notes


def _verbs(plan: StoredPlan, stage: dict[str, Any]) -> dict[str, str]:
    nodes = plan.nodes
    return {node: nodes[node]["op"].split("/")[0] for node in stage["nodes"]}
