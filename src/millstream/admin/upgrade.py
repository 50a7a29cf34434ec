"""Bring the state of an app in line with its topology, or refuse before anything is touched.

The new plan, the versions of tasks and what is to be done to directories are one commit; the directories follow, and
a crash between the two is made good at the next start.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from millstream.batch.batch import Progress
from millstream.batch.journal import Journal, StateMigration
from millstream.errors import DefinitionError, UpgradeError
from millstream.foundation.storage import close_environments, translate_storage_errors
from millstream.plan.changes import Retired, StageChange, StoredPlan, compare

T = TypeVar("T")


def changes_of(journal: Journal, catalog: dict[str, Any]) -> list[StageChange]:
    """Return what a new plan would do to each stage; nothing for an app that has not run yet."""
    before = _stored(journal.catalog())
    return compare(before, _stored(catalog)) if before.plan else []


def upgrade(
    journal: Journal, state_dir: Path, catalog: dict[str, Any], reset: Collection[str] = ()
) -> list[StageChange]:
    """Adopt a new plan and return what became of each stage; ``reset`` names stages that shall begin empty."""
    journal.replay_commits(state_dir)
    _migrate_state(journal, state_dir)
    before, now = _stored(journal.catalog()), _stored(catalog)
    _check_names(reset, now, before)
    changes = changes_of(journal, catalog)
    _check_compatible(changes, reset)
    progress, planned = journal.read()
    if planned is not None:
        _check_unfinished(planned.number, changes, before, now)
    moves = {change.was: change.stage for change in changes if change.was is not None and change.stage not in reset}
    retired = _retired(before, now, progress.done, moves, reset)
    stored = {**catalog, "retired": msgspec.to_builtins(retired)}
    migration = StateMigration(discard=tuple(sorted(reset)), move=moves)
    journal.write_catalog(stored, _with_stages(progress, moves, reset), migration)
    _migrate_state(journal, state_dir)
    return changes


def _stored(catalog: dict[str, Any]) -> StoredPlan:
    return msgspec.convert(catalog, StoredPlan)


def _check_names(reset: Collection[str], now: StoredPlan, before: StoredPlan) -> None:
    known = {**now.stages, **before.stages}
    for name in reset:
        if name not in known:
            raise DefinitionError(
                f"there is no stage {name!r} to reset", hint=f"stages: {', '.join(sorted(known))}", stage=name
            )


def _check_compatible(changes: Iterable[StageChange], reset: Collection[str]) -> None:
    refused = [change for change in changes if change.fate == "incompatible" and change.stage not in reset]
    if refused:
        told = "; ".join(f"stage {change.stage!r}: {', '.join(change.reasons)}" for change in refused)
        options = " ".join(f"--reset {change.stage}" for change in refused)
        raise UpgradeError(
            f"the state does not fit the changed topology: {told}",
            hint=f"undo the change, run it under another app id (millstream replay), or begin empty with {options}",
            stages=", ".join(change.stage for change in refused),
        )


def _check_unfinished(batch: int, changes: list[StageChange], before: StoredPlan, now: StoredPlan) -> None:
    """Refuse what would take parts of a batch that is under way for something else than they are."""
    renamed = [f"stage {change.was!r} has another name" for change in changes if change.was is not None]
    then, here = before.edges, now.edges
    for edge in then.keys() & here.keys():
        (old_stage, old), (new_stage, new) = then[edge], here[edge]
        if old.get("carries") != new.get("carries"):
            renamed.append(f"records on {edge!r} are written in another way")
        elif before.partitions.get(old_stage) != now.partitions.get(new_stage):
            renamed.append(f"{edge!r} has another number of partitions")
    if renamed:
        raise UpgradeError(
            f"batch {batch} is not finished, and after this change it cannot be: {', '.join(renamed)}",
            hint="run the topology as it was with --until caught-up first",
            batch=batch,
        )


def _retired(
    before: StoredPlan, now: StoredPlan, batch: int, moves: dict[str, str], reset: Collection[str]
) -> dict[str, Retired]:
    """Return which stores lie on disk without being kept up, and since when."""
    found: dict[str, Retired] = {}
    for name in {*before.stages, *before.retired}:
        place = moves.get(name, name)
        if place in reset:
            continue
        kept = now.stages.get(place, {}).get("stores", {})
        old = before.retired.get(name)
        left = {store: shape for store, shape in (old.stores if old else {}).items() if store not in kept}
        if left and old is not None:
            found[place] = msgspec.structs.replace(old, stores=left)
        gone = {
            store: shape
            for store, shape in before.stages.get(name, {}).get("stores", {}).items()
            if store not in now.stage_of_store
        }
        if gone:
            partitions = before.partitions.get(name, 0)
            found[place] = Retired(stores={**left, **gone}, partitions=partitions, batch=batch)
    return found


def _with_stages(progress: Progress, moves: dict[str, str], reset: Collection[str]) -> Progress:
    """Return the progress with versions and timers of tasks under the names of their stages now."""

    def moved(by_task: dict[str, T]) -> dict[str, T]:
        found = {}
        for task, each in by_task.items():
            stage, _, partition = task.rpartition("/")
            name = moves.get(stage, stage)
            if name not in reset:
                found[f"{name}/{partition}"] = each
        return found

    return msgspec.structs.replace(progress, versions=moved(progress.versions), timers=moved(progress.timers))


def _migrate_state(journal: Journal, state_dir: Path) -> None:
    """Move and delete directories of stages as noted; what was done before a crash is done already."""
    migration = journal.migration()
    if not migration.discard and not migration.move:
        return
    with translate_storage_errors(state_dir):
        for name in migration.discard:
            close_environments(state_dir / name)
            shutil.rmtree(state_dir / name, ignore_errors=True)
        for old, new in migration.move.items():
            if (state_dir / old).exists():
                close_environments(state_dir / old)
                (state_dir / old).rename(state_dir / new)
    journal.finish_migration()
