"""Adapt the state of an app to a changed topology, or reject the change before anything is modified.

The new plan, the versions of tasks and the pending changes to directories are one commit. The directories are changed
after it; if the process dies in between, the next start completes the change.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec

from millstream.admin.merging import check_can_merge, merge_state, with_commits
from millstream.batch.batch import Progress
from millstream.batch.journal import NO_MIGRATION, Journal, StateMerge, StateMigration
from millstream.errors import DefinitionError, UpgradeError
from millstream.foundation.storage import close_environments, translate_storage_errors
from millstream.foundation.typed_decoding import convert
from millstream.plan.changes import Retired, StageChange, StoredPlan, compare
from millstream.state.task import StateVersion


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """Tables that were filled from the past, where their stores are, and positions that the app has not read yet."""

    tables: tuple[str, ...] = ()
    merges: dict[str, StateMerge] = {}
    positions: dict[str, int] = {}


def changes_of(journal: Journal, catalog: dict[str, Any]) -> list[StageChange]:
    """Return what a new plan would change in each stage, an empty list for an app that has not run yet."""
    before = _stored(journal.catalog())
    return compare(before, _stored(catalog)) if before.plan else []


def upgrade(
    journal: Journal,
    state_dir: Path,
    catalog: dict[str, Any],
    reset: Collection[str] = (),
    filled: Filled | None = None,
) -> list[StageChange]:
    """Adopt a new plan and return the change of each stage; ``reset`` names stages that start empty.

    With ``filled``, tables that were filled from the past become part of the app in the same commit.
    """
    filled = filled or Filled()
    journal.replay_commits(state_dir)
    _migrate_state(journal, state_dir)
    before, now = _stored(journal.catalog()), _stored(catalog)
    _check_names(reset, now, before)
    changes = changes_of(journal, catalog)
    _check_compatible(changes, reset)
    progress, planned = journal.read()
    if planned is not None:
        _check_unfinished(planned.number, changes, before, now)
    kept = [change for change in changes if change.stage not in reset]
    moves = {change.was: change.stage for change in kept if change.was is not None}
    merges = {old: change.stage for change in kept for old in change.merged}
    check_can_merge(progress, merges, state_dir)
    retired = _retired(before, now, progress.done, moves | merges, reset)
    done = {**journal.catalog().get("filled", {}), **dict.fromkeys(filled.tables, progress.done)}
    stored = {
        **catalog,
        "retired": msgspec.to_builtins(retired),
        "filled": {table: batch for table, batch in done.items() if table in now.stage_of_store},
    }
    progress = _with_stages(progress, moves, merges, reset)
    merge, versions = with_commits(_stores_of(before, merges) | filled.merges, progress, state_dir)
    migration = StateMigration(discard=tuple(sorted(reset)), move=moves, merge=merge)
    progress = msgspec.structs.replace(
        progress, versions=versions, positions={**filled.positions, **progress.positions}
    )
    journal.write_catalog(stored, progress, migration)
    _migrate_state(journal, state_dir)
    return changes


def _stored(catalog: dict[str, Any]) -> StoredPlan:
    return convert(catalog, StoredPlan)


def _check_names(reset: Collection[str], now: StoredPlan, before: StoredPlan) -> None:
    names = {**now.stages, **before.stages}
    for name in reset:
        if name not in names:
            raise DefinitionError(
                f"there is no stage {name!r} to reset", hint=f"stages: {', '.join(sorted(names))}", stage=name
            )


def _check_compatible(changes: Iterable[StageChange], reset: Collection[str]) -> None:
    rejected = [change for change in changes if change.fate == "incompatible" and change.stage not in reset]
    if rejected:
        reasons = "; ".join(f"stage {change.stage!r}: {', '.join(change.reasons)}" for change in rejected)
        options = " ".join(f"--reset {change.stage}" for change in rejected)
        raise UpgradeError(
            f"the state does not fit the changed topology: {reasons}",
            hint=f"undo the change, run it under another app id (millstream replay), or start empty with {options}",
            stages=", ".join(change.stage for change in rejected),
        )


def _check_unfinished(batch: int, changes: list[StageChange], before: StoredPlan, now: StoredPlan) -> None:
    """Raise if the stored parts of an unfinished batch would get another meaning."""
    reasons = [f"stage {change.was!r} has another name" for change in changes if change.was is not None]
    reasons += [f"stage {old!r} becomes part of {change.stage!r}" for change in changes for old in change.merged]
    for edge in before.edges.keys() & now.edges.keys():
        (old_stage, old), (new_stage, new) = before.edges[edge], now.edges[edge]
        gets_values = new.get("carries_values", True) and not old.get("carries_values", True)
        if gets_values or old.get("carries") != new.get("carries"):
            reasons.append(f"records on {edge!r} have another format")
        elif before.partitions.get(old_stage) != now.partitions.get(new_stage):
            reasons.append(f"{edge!r} has another number of partitions")
    if reasons:
        raise UpgradeError(
            f"batch {batch} is not finished and could not be finished after this change: {', '.join(reasons)}",
            hint="run the previous topology with --until caught-up first",
            batch=batch,
        )


def _retired(
    before: StoredPlan, now: StoredPlan, batch: int, moves: dict[str, str], reset: Collection[str]
) -> dict[str, Retired]:
    """Return the stores that stay on disk but are no longer updated, with their last batch."""
    retired: dict[str, Retired] = {}
    for name in {*before.stages, *before.retired}:
        stage = moves.get(name, name)
        if stage in reset:
            continue
        kept = now.stages.get(stage, {}).get("stores", {})
        old = before.retired.get(name)
        left = {store: shape for store, shape in (old.stores if old else {}).items() if store not in kept}
        if left and old is not None:
            retired[stage] = msgspec.structs.replace(old, stores=left)
        dropped = {
            store: shape
            for store, shape in before.stages.get(name, {}).get("stores", {}).items()
            if store not in now.stage_of_store
        }
        if dropped:
            partitions = before.partitions.get(name, 0)
            other = retired[stage].stores if stage in retired else {}
            retired[stage] = Retired(stores={**other, **left, **dropped}, partitions=partitions, batch=batch)
    return retired


def _stores_of(before: StoredPlan, merges: dict[str, str]) -> dict[str, StateMerge]:
    """Return what is merged into which stage: all stores of a stage that are on disk."""
    return {
        old: StateMerge(
            into=stage,
            stores=(*before.stages[old]["stores"], *(before.retired[old].stores if old in before.retired else ())),
        )
        for old, stage in merges.items()
    }


def _with_stages(progress: Progress, moves: dict[str, str], merges: dict[str, str], reset: Collection[str]) -> Progress:
    """Return the progress with versions and timers of tasks under the new names of their stages.

    A task whose state becomes part of another one takes on its version, and adds its timers.
    """
    versions: dict[str, StateVersion] = {}
    timers: dict[str, dict[str, int]] = {}
    for task in {**progress.versions, **progress.timers}:
        stage, _, partition = task.rpartition("/")
        name = merges.get(stage) or moves.get(stage, stage)
        if name not in reset:
            if task in progress.versions and stage not in merges:
                versions[f"{name}/{partition}"] = progress.versions[task]
            if task in progress.timers:
                timers[f"{name}/{partition}"] = {**timers.get(f"{name}/{partition}", {}), **progress.timers[task]}
    return msgspec.structs.replace(progress, versions=versions, timers=timers)


def _migrate_state(journal: Journal, state_dir: Path) -> None:
    """Move and delete directories of stages as stored in the journal; this is idempotent."""
    migration = journal.migration()
    if migration == NO_MIGRATION:
        return
    with translate_storage_errors(state_dir):
        for name in migration.discard:
            close_environments(state_dir / name)
            shutil.rmtree(state_dir / name, ignore_errors=True)
        for old, new in migration.move.items():
            if (state_dir / old).exists():
                close_environments(state_dir / old)
                (state_dir / old).rename(state_dir / new)
        for old, merge in migration.merge.items():
            merge_state(state_dir / old, state_dir / merge.into, merge)
    journal.finish_migration()
