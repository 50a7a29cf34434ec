"""Fill new tables of an app from the past: decide what has to be computed, and make it part of the app.

The tables are computed from the beginning of the topics by a part of the plan with its own journal and state, up to
the positions of the app. Everything in between, such as other tables that they depend on, is computed again. Then their
stores are merged into the state of the app, in the commit that makes the tables part of its topology.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from millstream.batch.fill import Fill, stored_fill
from millstream.batch.journal import Journal, StateMerge
from millstream.broker import Broker
from millstream.config import Config
from millstream.errors import DefinitionError, StateError
from millstream.foundation.paths import fill_dir, state_dir
from millstream.foundation.storage import close_environments
from millstream.foundation.typed_decoding import convert
from millstream.plan.changes import StoredPlan
from millstream.plan.describe import view
from millstream.plan.joins import StreamGlobalJoin
from millstream.plan.layout import Layout
from millstream.plan.node import Node
from millstream.plan.parts import PlanPart, downstream, upstream
from millstream.plan.processors import PROCESSORS
from millstream.plan.sources import GlobalTableSource, Source
from millstream.plan.stages import keeps_table, store_names
from millstream.plan.stateful import ToStream
from millstream.plan.topology import Plan


def requested_fill(
    plan: Plan, config: Config, data_dir: Path, app: str, journal: Journal, tables: Collection[str]
) -> Fill | None:
    """Return the fill of these tables, or the unfinished one of an earlier run; None if there is nothing to fill."""
    catalog = journal.catalog()
    before = convert(catalog, StoredPlan)
    unfinished = stored_fill(data_dir, app)
    nodes = {node.name: node for node in plan.nodes}
    names = [*tables]
    if unfinished is not None and not before.stage_of_store.keys() & set(unfinished.filled):
        names += [name for name in unfinished.tables if name in nodes and name not in names]
    done: dict[str, int] = catalog.get("filled", {})
    for name in names:
        _check_is_table(name, plan)
    names = [name for name in names if name not in done]
    if not names or not before.plan:
        return None
    for name in names:
        if name in before.stage_of_store:
            raise StateError(
                f"table {name!r} is part of app {app!r} since an earlier start, so it cannot be filled from the past",
                hint="give it another name=, and fill the table of that name",
                table=name,
            )
    filled = _new_steps(plan, names, before)
    _check_is_exact(plan, filled, before, config)
    return Fill(tables=tuple(names), filled=filled, plan=view(PlanPart(filled=filled, is_fill=True).of(plan)))


def _check_is_table(name: str, plan: Plan) -> None:
    tables = {node.name: node for node in plan.nodes if keeps_table(node)}
    if name not in tables:
        names = ", ".join(sorted(table for table in tables if table)) or "none"
        raise DefinitionError(f"there is no table {name!r} to fill", hint=f"tables: {names}", table=name)
    if isinstance(tables[name], GlobalTableSource):
        raise DefinitionError(f"{name!r} is a global table, which always has all rows of its topic", table=name)


def _new_steps(plan: Plan, names: Collection[str], before: StoredPlan) -> tuple[str, ...]:
    """Return the tables and all steps upstream of them whose state is new too."""
    needed = upstream(plan.nodes, names)
    new = [
        node.name or ""
        for node in plan.nodes
        if node in needed and any(store not in before.stage_of_store for store in store_names(node))
    ]
    return tuple(new)


def _check_is_exact(plan: Plan, filled: tuple[str, ...], before: StoredPlan, config: Config) -> None:
    """Raise if the past cannot be computed exactly, or only with steps that already run."""
    for node in plan.nodes:
        if node in upstream(plan.nodes, filled) and (reason := _inexact(node, config)):
            raise StateError(
                f"{filled[-1]!r} cannot be filled exactly: {reason}",
                hint="run the new topology under another id from the beginning: millstream replay",
                node=node.name,
            )
    for node in downstream(plan.nodes, filled):
        if node.name not in filled and any(store in before.stage_of_store for store in store_names(node)):
            raise StateError(
                f"{node.name!r} is part of the app and reads from {', '.join(filled)}, so it could not go on meanwhile",
                hint="run the new topology under another id from the beginning: millstream replay",
                node=node.name,
            )
    if config.checkpoint is not None:
        raise StateError(
            "tables are filled on one host only, but the app keeps its state in a checkpoint",
            hint="run the new topology under another id from the beginning: millstream replay",
        )


def _inexact(node: Node, config: Config) -> str:
    """Return why the past of a step cannot be computed again, empty if it can."""
    if isinstance(node, ToStream) and config.caching:
        return f"with caching, the number of updates of {node.source.name!r} depends on its batches"
    if isinstance(node, PROCESSORS):
        return f"the processor of {node.name!r} may use the time of the clock"
    if isinstance(node, StreamGlobalJoin):
        return f"{node.name!r} joined past records with the global table as it was then"
    if isinstance(node, Source) and node.idle_after is not None:
        return f"the time of {node.name!r} advanced by the clock while it was idle"
    return ""


def open_fill(data_dir: Path, app: str, fill: Fill, progress: Mapping[str, int], *, durable: bool) -> Journal:
    """Return the journal of a fill; one with another plan, or ahead of the app, starts over."""
    directory = fill_dir(data_dir, app)
    if directory.exists() and stored_fill(data_dir, app) != fill:
        remove_fill(data_dir, app)
    journal = Journal(directory / "journal", durable=durable)
    ahead = {name for name, offset in journal.read()[0].positions.items() if offset > progress.get(name, offset)}
    if ahead:
        journal.close()
        remove_fill(data_dir, app)
        journal = Journal(directory / "journal", durable=durable)
    new = directory / "fill.json.new"
    new.write_bytes(msgspec.json.encode(fill))
    new.replace(directory / "fill.json")
    return journal


def remove_fill(data_dir: Path, app: str) -> None:
    """Delete journal and state of a fill."""
    directory = fill_dir(data_dir, app)
    close_environments(directory)
    removed = directory.with_name("fill.removed")
    shutil.rmtree(removed, ignore_errors=True)
    if directory.exists():
        directory.rename(removed)  # in one step, so that a crash does not leave a part of it
        shutil.rmtree(removed, ignore_errors=True)


def merges_of(fill: Fill, computed: Layout, whole: Layout, data_dir: Path, app: str) -> dict[str, StateMerge]:
    """Return which stores of the fill become part of which stages of the app, by their directories."""
    targets = {store: stage.name for stage in whole.plan.stages for store in stage.store_names}
    merges: dict[str, StateMerge] = {}
    for stage in computed.plan.stages:
        stores = [name for name, node in stage.store_owners.items() if node.name in fill.filled]
        if stage.round or not stores:
            continue
        target = targets[stores[0]]
        counts = computed.partitions_by_stage[stage.name], whole.partitions_by_stage[target]
        if counts[0] != counts[1]:
            raise StateError(
                f"stage {stage.name!r} was filled with {counts[0]} partitions, but {target!r} has {counts[1]}"
            )
        path = os.path.relpath(fill_dir(data_dir, app) / "state" / stage.name, state_dir(data_dir, app))
        merges[path] = StateMerge(into=target, stores=tuple(stores))
    return merges


def expired(broker: Broker, topics: Collection[str]) -> dict[str, int]:
    """Return how many records of each topic retention has deleted; tables are filled without them."""
    counts = {topic: sum(offsets.begin for offsets in broker.offsets(topic)) for topic in topics}
    return {topic: count for topic, count in counts.items() if count}
