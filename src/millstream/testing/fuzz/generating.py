"""Generate random cases: a topology of several verbs, and records for its topics."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from millstream.testing.conformance.cases import Case, Expectation
from millstream.testing.fuzz.handles import Draft, Handle
from millstream.testing.fuzz.verbs import (
    OF_TABLES,
    VERBS,
    cogroup,
    foreign_key_join,
    process,
    process_values,
    ready_aggregations,
    stream_table_join,
)

_LETTERS = "abcxyz|"
_MAX_STEPS = 16


def random_case(
    seed: int,
    *,
    portable: bool = False,
    in_order: bool | None = None,
    verbs: Mapping[Callable[[Draft], None], int] = VERBS,
    min_verbs: int = 2,
    max_steps: int = _MAX_STEPS,
) -> Case:
    """Return the case of a seed.

    A ``portable`` one uses only what Kafka Streams has. With ``in_order`` each record is later than the one before,
    whatever its topic; by default half of the cases are in order. ``verbs`` are those to choose from, with weights.
    """
    pick = random.Random(seed)
    draft = Draft(pick)
    for number in range(pick.choice([1, 2, 2, 3])):
        _add_source(draft, f"in{number}")
    for _ in range(pick.randint(min_verbs, 8)):
        verb = pick.choices(list(verbs), list(verbs.values()))[0]
        if (draft.streams or verb in OF_TABLES) and (draft.tables or verb not in OF_TABLES) and _has_plain(draft, verb):
            verb(draft)
    if not portable and draft.streams and _has_plain(draft, process) and draft.chance(0.3):
        ready_aggregations(draft)
    _add_sinks(draft)
    ordered = pick.random() < 0.5 if in_order is None else in_order
    steps = _steps(draft, max_steps, ordered=ordered)
    return Case(id=f"fuzz/{seed}", group="fuzz", topology=draft.nodes, steps=steps, expect=Expectation())


def _has_plain(draft: Draft, verb: Callable[[Draft], None]) -> bool:
    """Whether a verb that needs text keys has a source with them."""
    if verb is foreign_key_join:
        return any(not handle.is_windowed for handle in draft.tables)
    if verb in (process, process_values, cogroup) or getattr(verb, "needs_text_keys", False):
        return any(not handle.is_windowed for handle in draft.streams)
    return verb is not stream_table_join or bool(draft.streams)


def _add_source(draft: Draft, topic: str) -> None:
    draft.topics.append(topic)
    if draft.chance(0.4):
        versioned: dict[str, Any] = (
            {"versioned_history_ms": draft.pick.choice([0, 10, 40])} if draft.chance(0.12) else {}
        )
        store = draft.store()
        draft.tables.append(Handle(draft.add("table", topic=topic, **store, **versioned), is_versioned=bool(versioned)))
        draft.table_stores += [] if versioned else store.values()
    else:
        draft.streams.append(Handle(draft.add("stream", topic=topic)))


def _add_sinks(draft: Draft) -> None:
    """Write everything that no other node reads, and some of what one does, to a topic each."""
    outputs = [*((table, True) for table in draft.tables), *((stream, False) for stream in draft.streams)]
    for number, (handle, is_table) in enumerate(outputs):
        if handle.id not in draft.read or draft.chance(0.15):
            stream = draft.add("to_stream", handle.id) if is_table else handle.id
            draft.add("to", stream, topic=f"out{number}")


def _steps(draft: Draft, max_steps: int, *, ordered: bool) -> list[dict[str, Any]]:
    pick, steps, now = draft.pick, list[dict[str, Any]](), draft.pick.choice([0, 5, 1000])
    keys = pick.choice(["a", "ab", "abc"])
    for _ in range(pick.randint(3, max_steps)):
        if draft.has_wall_clock and pick.random() < 0.15:
            steps.append({"advance_wall_clock_ms": pick.choice([5, 10, 25])})
            continue
        now += pick.choice([1, 2, 5, 10, 30]) if ordered else pick.choice([0, 0, 1, 3, 5, 10, 30])
        timestamp = now if ordered or pick.random() < 0.7 else max(0, now - pick.choice([1, 3, 8, 20, 50]))
        key = None if pick.random() < 0.06 else pick.choice(keys)
        value = None if pick.random() < 0.15 else "".join(pick.choices(_LETTERS, k=pick.randint(0, 4)))
        steps.append({"pipe": [pick.choice(draft.topics), key, value, timestamp]})
    return steps
