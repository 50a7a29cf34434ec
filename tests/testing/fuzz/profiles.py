"""Kinds of random cases for the comparison with Kafka Streams: each has its own verbs, inputs and settings."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec
from tests.testing.fuzz.enriching import enriched, in_turn, with_numbers, with_times_in_values
from tests.testing.fuzz.recorded import varied

from millstream.testing.conformance.cases import Case
from millstream.testing.fuzz import verbs
from millstream.testing.fuzz.generating import random_case
from millstream.testing.fuzz.handles import Draft, Handle

Verb: TypeAlias = Callable[[Draft], None]
Node: TypeAlias = dict[str, Any]
_FAILS = "fail_if_contains:x"
_LONG = 4_001


def of_text_keys(verb: Verb) -> Verb:
    """Mark a verb that continues from a stream with text keys."""
    verb.needs_text_keys = True  # type: ignore[attr-defined]
    return verb


@of_text_keys
def through(draft: Draft) -> None:
    """A topic that the topology writes and reads."""
    source, topic = draft.stream(plain=True), f"via{len(draft.nodes)}"
    draft.add("to", draft.add("map_values", source.id, fn="value_text"), topic=topic)  # numbers are read as text
    read = "stream" if draft.chance(0.7) else "table"
    handle = Handle(draft.add(read, topic=topic))
    draft.origins[handle.id] = draft.origins[source.id]
    (draft.streams if read == "stream" else draft.tables).append(handle)


@of_text_keys
def computed_topic(draft: Draft) -> None:
    """A sink whose topic is computed from the record."""
    by = draft.pick.choice(("len", "const:k"))
    draft.add("to_dynamic", draft.stream(plain=True).id, prefix=f"dyn{len(draft.nodes)}-", by=by)


@of_text_keys
def headed(draft: Draft) -> None:
    """A processor that reads or writes headers."""
    choices = ("add_header:h", "remove_header:h", "header_to_value:h", "drop_headers")
    source, processor = draft.stream(plain=True), draft.pick.choice(choices)
    if processor[:3] in ("add", "rem") and draft.chance(0.4):
        draft.streams.append(Handle(draft.add("process_values", source.id, processor=processor)))
    else:
        draft.streams.append(Handle(draft.add("process", source.id, processor=processor)))


@of_text_keys
def routes(draft: Draft) -> None:
    """A processor that forwards to some of its readers, by name."""
    source, number = draft.stream(plain=True), len(draft.nodes)
    names = [f"r{number}-{part}" for part in range(3)]
    rules = [f"{draft.pick.choice('abxyz')}={draft.pick.choice([*names, ''])}" for _ in range(2)]
    names += [f"r{number}-to", f"r{number}-next"]
    rules += [f"{draft.pick.choice('abc')}={draft.pick.choice(names[3:])}"] if draft.chance(0.3) else []
    rules += [f"*={draft.pick.choice([*names, ''])}"] if draft.chance(0.7) else []
    node = draft.add("process", source.id, processor="forward_named:" + ",".join(rules))
    draft.add("to", node, topic=f"routed{number}", name=names[3])
    draft.streams += [
        Handle(draft.add("filter", node, fn=draft.pick.choice(verbs.PREDICATES), name=names[0])),
        Handle(draft.add("map_values", node, fn=draft.pick.choice(verbs.MAPPERS), name=names[1])),
        Handle(draft.add("process_values", node, processor="stamp_time", name=names[2])),
        Handle(draft.add("process", node, processor="shift_timestamp:3", name=names[4])),
    ]


@of_text_keys
def timers(draft: Draft) -> None:
    """A processor with timers."""
    kind = draft.pick.choice(["stream", "wall"])
    choices = (f"switchable_ticks:{kind}:10", f"ticks:{kind}:7:4", f"anchored_ticks:{kind}:3:10")
    draft.has_wall_clock |= kind == "wall"
    source = draft.stream(plain=True)
    draft.streams.append(Handle(draft.add("process", source.id, processor=draft.pick.choice(choices))))


@of_text_keys
def reads_global(draft: Draft) -> None:
    """A processor that reads a global table."""
    if not draft.global_tables:
        verbs.global_join(draft)
    source, (_, store) = draft.stream(plain=True), draft.pick.choice(draft.global_tables)
    op, processor = draft.pick.choice(
        [("process", "global_get"), ("process", "global_all"), ("process_values", "global_get")]
    )
    draft.streams.append(Handle(draft.add(op, source.id, processor=processor, **{"global": store})))


def unlimited(draft: Draft) -> None:
    """An aggregation without an end."""
    streams = [stream for stream in draft.streams if not stream.is_windowed]
    if not streams:
        return
    source = draft.pick.choice(streams)
    grouped = draft.add("group_by_key", source.id)
    windowed = draft.add("windowed_by", grouped, window="unlimited", start_ms=draft.pick.choice([0, 10]))
    draft.tables.append(Handle(draft.add("count", windowed, **draft.store()), is_windowed=True))


def versioned(draft: Draft) -> None:
    """A table with versions, and a stream that is joined with it within a grace period."""
    streams = [handle for handle in draft.streams if not handle.is_windowed]
    if not streams:
        return
    history = draft.pick.choice([0, 10, 40])
    left, right = draft.pick.choice(streams), draft.pick.choice(streams)
    table = draft.add("to_table", right.id, versioned_history_ms=history, **draft.store())
    draft.tables.append(Handle(table, is_versioned=True))
    if draft.chance(0.7):
        op, grace = draft.pick.choice(["join", "left_join"]), draft.pick.choice([0, history // 2, history])
        kept = draft.add("filter_not", left.id, fn="key_null")
        joiner = draft.pick.choice([*verbs.JOINERS, "concat_key"])
        draft.streams.append(Handle(draft.add(op, [kept, table], joiner=joiner, grace_ms=grace)))


def overflow(draft: Draft) -> None:
    """A buffer that is full."""
    tables = [table for table in draft.tables if not table.is_versioned]
    if not tables:
        return
    source = draft.pick.choice(tables)
    size = draft.pick.choice([1, 2, 3])
    if source.closes and draft.chance(0.5):
        node = draft.add("suppress", source.id, until="window_closes", max_records=size + 2)
    else:
        node = draft.add(
            "suppress", source.id, until="time_limit", wait_ms=draft.pick.choice(verbs.TIMES), max_records=size,
            when_full=draft.pick.choice(["emit_early", "emit_early", "shut_down"]),
        )  # fmt: skip
    draft.tables.append(source._replace(id=node))


def number_table(draft: Draft) -> None:
    """A transformer that reads the store of another table."""
    tables = [table for table in draft.tables if not table.is_windowed and not table.is_versioned]
    if not tables or not draft.table_stores:
        return
    source = draft.pick.choice(tables)
    other = draft.pick.choice(draft.table_stores)
    node = draft.add(
        "transform_values", source.id, transformer="with_other", store=f"s{len(draft.nodes)}", stores=[other]
    )
    draft.tables.append(Handle(node))


def _unchanged(case: Case, _pick: random.Random) -> Case:
    return case


class Profile(NamedTuple):
    """A kind of cases: more likely verbs, and what changes a case afterwards."""

    verbs: Mapping[Verb, int]
    change: Callable[[Case, random.Random], Case] = _unchanged
    min_verbs: int = 2
    max_steps: int = 16


def _with_headers(case: Case, pick: random.Random) -> Case:
    def headed_step(step: Node, number: int) -> Node:
        if "pipe" not in step:
            return step
        names = [pick.choice("hg") for _ in range(pick.choice([0, 1, 1, 2]))]
        return {"pipe": [*step["pipe"], [[name, f"{pick.choice('xyz')}{number}"] for name in names]]}

    steps = [headed_step(step, number) for number, step in enumerate(case.steps)]
    return msgspec.structs.replace(case, steps=steps, headers=True)


def _with_handlers(case: Case, pick: random.Random) -> Case:
    nodes = [_failing(node, pick) if pick.random() < 0.4 else node for node in case.topology]
    config = {"processing_handler": pick.choice(["continue", "continue", "continue", "fail"])}
    config |= {"deserialization_handler": pick.choice(["continue", "fail"])}
    config |= {"dead_letter_topic": "dead"} if pick.random() < 0.5 else {}
    changed = msgspec.structs.replace(case, topology=nodes, config=config)
    return _with_headers(changed, pick) if pick.random() < 0.5 else changed


def _failing(node: Node, pick: random.Random) -> Node:
    op = node["op"]
    if op == "map_values":
        return {**node, "fn": _FAILS}
    if op in ("map", "flat_map"):
        return {**node, "key": pick.choice(["key", "first_char"]), **({"value": _FAILS} if op == "map" else {})}
    if op.endswith("join"):
        return {**node, "joiner": _FAILS}
    if op in ("aggregate", "reduce") and "subtractor" not in node and "adder" in node:
        return {**node, "adder": _FAILS}
    return node


def _with_cache(case: Case, _pick: random.Random) -> Case:
    return msgspec.structs.replace(case, config={"cache": True})


def _with_times(case: Case, pick: random.Random) -> Case:
    """Compute the timestamps of some topics."""

    def timed(node: Node) -> Node:
        if node["op"] not in ("stream", "table") or node.get("topic", "").startswith("via") or pick.random() < 0.3:
            return node
        invalid = pick.choice(["skip", "skip", "partition_time", "fail"])
        return {**node, "timestamp": f"record_shift:{pick.choice([-8, -2, 3])}", "on_invalid": invalid}

    return msgspec.structs.replace(case, topology=[timed(node) for node in case.topology])


def _with_sources(case: Case, pick: random.Random) -> Case:
    """Read several topics as one stream."""
    extra = [node["topic"] + "b" for node in case.topology if node["op"] == "stream" and node["topic"].startswith("in")]

    def several(node: Node) -> Node:
        if node["op"] != "stream" or not node["topic"].startswith("in"):
            return node
        rest = {name: value for name, value in node.items() if name != "topic"}
        if pick.random() < 0.5:
            return {**rest, "topics": [node["topic"], node["topic"] + "b"]}
        return {**rest, "pattern": node["topic"] + "b?"}

    def other(step: Node) -> Node:
        if "pipe" not in step or step["pipe"][0] + "b" not in extra or pick.random() < 0.5:
            return step
        return {"pipe": [step["pipe"][0] + "b", *step["pipe"][1:]]}

    steps = [other(step) for step in case.steps]
    return msgspec.structs.replace(case, topology=[several(node) for node in case.topology], steps=steps)


def _with_long_times(case: Case, _pick: random.Random) -> Case:
    """Make all times longer, so that segments of stores expire."""
    nodes = [
        {name: value * _LONG if name.endswith("_ms") else value for name, value in node.items()}
        for node in case.topology
    ]
    steps = [{"pipe": [*step["pipe"][:3], step["pipe"][3] * _LONG]} if "pipe" in step else step for step in case.steps]
    return msgspec.structs.replace(case, topology=nodes, steps=steps)


def _with_queries(case: Case, pick: random.Random) -> Case:
    """Ask the stores of tables and aggregations."""
    by_id = {node["id"]: node for node in case.topology}
    queries: list[Node] = []
    for node in case.topology:
        if "store" in node and node["op"] in ("table", "to_table", "count", "reduce", "aggregate"):
            kind = _store_kind(node, by_id)
            queries += [{"store": node["store"], **pick.choice(_queries(kind, pick))} for _ in range(3)]
    return msgspec.structs.replace(case, queries=queries)


def _store_kind(node: Node, by_id: Mapping[str, Node]) -> str:
    if "versioned_history_ms" in node:
        return "versioned"
    source = by_id.get(node["in"], {}) if isinstance(node.get("in"), str) else {}
    while source.get("op") == "emit":
        source = by_id[source["in"]]
    window = source.get("window")
    return "key_value" if window is None else "session" if window == "session" else "window"


def _queries(kind: str, pick: random.Random) -> list[Node]:
    first, last = sorted(pick.choices([*"abc", None], k=2), key=str)
    start, stop = sorted(pick.choices([0, 5, 20, 1000, 1010, 1030, 1100, 5000], k=2))
    key, times = pick.choice("abc"), {"from": start, "to": stop}
    keys = {"key_from": first, "key_to": last}
    match kind:
        case "key_value":
            names = ("all", "reverse_all", "range", "reverse_range")
            ranges = [{"query": name, "from": first, "to": last} for name in names]
            return [{"query": "get", "key": key}, {"query": "prefix_scan", "prefix": key}, *ranges]
        case "versioned":
            return [{"query": "get", "key": key}, {"query": "get_as_of", "key": key, "as_of": start}]
        case "window":
            return [
                {"query": pick.choice(["", "backward_"]) + "fetch", "key": key, **times},
                {"query": pick.choice(["", "backward_"]) + "fetch_range", **keys, **times},
                {"query": pick.choice(["", "backward_"]) + "fetch_all", **times},
                {"query": pick.choice(["", "backward_"]) + "all"},
            ]
        case _:
            bounds = {"earliest_end": start, "latest_start": stop}
            return [
                {"query": pick.choice(["", "backward_"]) + "fetch", "key": key},
                {"query": pick.choice(["", "backward_"]) + "fetch_range", **keys},
                {"query": pick.choice(["", "backward_"]) + "find_sessions", "key": key, **bounds},
                {"query": pick.choice(["", "backward_"]) + "find_sessions_range", **keys, **bounds},
            ]


def _more(**weights: int) -> dict[Verb, int]:
    return {**verbs.VERBS, **{getattr(verbs, name): weight for name, weight in weights.items()}}


_WINDOWS = _more(aggregate=30, stream_join=10, suppress=8, to_stream=8, table_join=8, regroup=8, cogroup=6)
_TABLES: dict[Verb, int] = {
    verb: weight * (4 if verb in verbs.OF_TABLES or verb is verbs.to_table else 1)
    for verb, weight in verbs.VERBS.items()
}

_MIXED: dict[Verb, int] = {
    **_more(table_join=8, foreign_key_join=6, suppress=5, process=6),
    through: 3, headed: 3, routes: 4, timers: 3, reads_global: 2, unlimited: 1, versioned: 6, overflow: 4,
    number_table: 2,
}  # fmt: skip
_LARGE = (5, 26)
"""The fewest verbs and the most steps of large topologies."""

PROFILES: dict[str, Profile] = {
    "plain": Profile(verbs.VERBS),
    "windows": Profile({**_WINDOWS, unlimited: 2}),
    "tables": Profile(_TABLES),
    "headers": Profile({**verbs.VERBS, headed: 12, through: 3}, _with_headers),
    "window headers": Profile({**_WINDOWS, headed: 6}, _with_headers),
    "table headers": Profile({**_TABLES, headed: 6}, _with_headers),
    "handlers": Profile({**_more(stateless=15, rekey=10), timers: 3}, _with_handlers),
    "caching": Profile({**_more(process=8, aggregate=15), **dict.fromkeys((through,), 2)}, _with_cache),
    "table caching": Profile(_TABLES, _with_cache),
    "window caching": Profile(_WINDOWS, _with_cache),
    "times": Profile({**verbs.VERBS, through: 3}, _with_times),
    "sources": Profile(verbs.VERBS, _with_sources),
    "through": Profile({**verbs.VERBS, through: 15, computed_topic: 5}),
    "processors": Profile({**_more(process=20, process_values=8), routes: 12, timers: 10, reads_global: 8}),
    "versioned": Profile({**_TABLES, versioned: 30}),
    "suppressed": Profile({**_WINDOWS, overflow: 25}),
    "stores": Profile({**_TABLES, number_table: 15, verbs.process: 20}),
    "long": Profile(verbs.VERBS, _unchanged, *_LARGE),
    "long windows": Profile({**_WINDOWS, unlimited: 1}, _unchanged, *_LARGE),
    "long tables": Profile(_TABLES, _unchanged, *_LARGE),
    "long headers": Profile({**_WINDOWS, headed: 6, timers: 3, verbs.process: 8}, _with_headers, *_LARGE),
    "long caching": Profile({**_WINDOWS, **dict.fromkeys(verbs.OF_TABLES, 10)}, _with_cache, *_LARGE),
    "long times": Profile(_WINDOWS, _with_long_times),
    "queries": Profile(_more(aggregate=30, to_table=10), _with_queries),
    "numbers": Profile({**_more(stateless=12, table_step=10), headed: 4}, in_turn(with_numbers, enriched)),
    "times in values": Profile({**verbs.VERBS, through: 3}, in_turn(with_times_in_values, enriched)),
    "mixed": Profile(_MIXED, enriched, 4),
    "mixed headers": Profile(_MIXED, in_turn(enriched, _with_headers), 4),
    "mixed handlers": Profile(_MIXED, in_turn(enriched, _with_handlers), 4),
    "mixed caching": Profile(_MIXED, in_turn(enriched, _with_cache), 4),
    "shuffles": Profile(_more(rekey=15, repartition=12, cogroup=12, stream_join=12, merge=8)),
}


PROFILES.update({
    f"rich {name}": kind._replace(change=in_turn(enriched, kind.change))
    for name, kind in tuple(PROFILES.items())
    if "mixed" not in name and kind.change not in (_with_queries, _with_long_times)
})  # fmt: skip


class Recorded(NamedTuple):
    """A kind of variations of recorded cases: the groups to choose from, and what changes a case afterwards."""

    groups: tuple[str, ...]
    change: Callable[[Case, random.Random], Case] = _unchanged


_COMPOSED = ("fuzz/", "process/", "emit/", "suppress/", "sub-topologies/", "nulls/", "windowed-keys/")
RECORDED = {
    "recorded": Recorded(("",)),
    "recorded fuzz": Recorded(("fuzz/",)),
    "recorded windows": Recorded(("emit/", "suppress/", "windowed-keys/", "window/", "session/", "sliding/")),
    "recorded shuffles": Recorded(("sub-topologies/", "nulls/", "cogroup/", "composed/")),
    "recorded tables": Recorded(("versioned/", "process/", "join/", "table/")),
    "recorded caching": Recorded(("caching/",)),
    "recorded handlers": Recorded(("errors/handlers",)),
    "recorded headers": Recorded(_COMPOSED, _with_headers),
    "recorded with cache": Recorded(_COMPOSED, _with_cache),
    "recorded with handlers": Recorded(_COMPOSED, _with_handlers),
}
KINDS = (*PROFILES, *RECORDED)


def case_of(kind: str, seed: int) -> Case:
    """Return the case of a seed of some kind."""
    if kind in RECORDED:
        case, change = varied(seed, RECORDED[kind].groups), RECORDED[kind].change
    else:
        profile = PROFILES[kind]
        case = random_case(
            seed, portable=True, verbs=profile.verbs, min_verbs=profile.min_verbs, max_steps=profile.max_steps
        )
        change = profile.change
    changed = change(case, random.Random(seed))
    return msgspec.structs.replace(changed, id=f"{kind}/{seed}", group=kind)
