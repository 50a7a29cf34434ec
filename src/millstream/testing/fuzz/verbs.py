"""The verbs of random topologies: each adds nodes to a draft, continuing from handles that it chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.testing.fuzz.handles import Draft, Handle

PREDICATES = ("value_null", "key_null", "value_contains:x", "value_len_gt:1", "key_in:a,b", "all", "value_contains:a")
MAPPERS = (
    "value", "upper", "append:!", "text_append:?", "len", "first_char", "key_value", "null_if_contains:z", "key",
    "value_field:0", "value_field:1", "value_text", "const:c",
)  # fmt: skip
KEYS = ("key", "first_char", "key_first_char", "key_append:1", "key_null_if_contains:b", "const:c", "value_field:0")
LISTERS = ("split_chars", "split_fields", "twice", "empty", "drop_if_contains:x")
JOINERS = ("concat", "concat:-", "pair", "left", "right", "null_if_contains:z")
ADDERS = ("concat_plus", "append", "max", "min", "latest", "concat_or_null:z", "with_key", "sorted_chars", "sum_len")
REDUCERS = ("concat_plus", "append", "max", "min", "latest")
MERGERS = ("concat_plus", "append", "max", "min")
PAIRS = (
    ("concat_plus", "minus"),
    ("append", "erase"),
    ("concat_plus", "remove_last_occurrence"),
    ("sum_len", "sub_len"),
)
PROCESSORS = (
    "shift_timestamp:-5", "shift_timestamp:7", "dedupe_within:20", "buffer_last_n:2", "count_and_last", "store_put",
    "count_and_punctuate_stream_time:10", "count_and_punctuate_wall_clock:10", "ticks:stream:15:3", "ticks:wall:10:2",
    "owner_index", "anchored_ticks:stream:7:20",
)  # fmt: skip
TIMES = (0, 1, 5, 10, 20, 40)


def stateless(draft: Draft) -> None:
    """A step of a stream that keeps its key."""
    source, op = draft.stream(), draft.pick.choice(["filter", "filter_not", "map_values", "flat_map_values"])
    functions = {"map_values": MAPPERS, "flat_map_values": LISTERS}.get(op, PREDICATES)
    draft.streams.append(source._replace(id=draft.add(op, source.id, fn=draft.pick.choice(functions))))


def rekey(draft: Draft) -> None:
    """A step of a stream that changes its key."""
    source, op, key = draft.stream(), draft.pick.choice(["map", "select_key", "flat_map"]), draft.pick.choice(KEYS)
    if op == "select_key":
        node = draft.add(op, source.id, fn=key)
    elif op == "map":
        node = draft.add(op, source.id, key=key, value=draft.pick.choice(MAPPERS))
    else:
        node = draft.add(op, source.id, key=key, fn=draft.pick.choice(LISTERS))
    draft.streams.append(Handle(node))


def merge(draft: Draft) -> None:
    """Two streams as one; it has the declared type of the first, so a stream declared as text comes after others.

    Counts are declared as numbers, so these are merged with counts only.
    """
    left, counts = draft.stream(), draft.numbers
    streams = [handle for handle in draft.streams if (handle.id in counts) == (left.id in counts)]
    same = [handle for handle in streams if handle.is_windowed == left.is_windowed]
    sources = sorted([left.id, draft.pick.choice(same).id], key=draft.texts.__contains__)
    draft.streams.append(left._replace(id=draft.add("merge", sources)))


def split(draft: Draft) -> None:
    """Branches, the last of them for all other records."""
    source, number = draft.stream(), len(draft.nodes)
    branches = [{"id": f"b{number}-{part}", "when": draft.pick.choice(PREDICATES)} for part in range(2)]
    default = {"default": f"b{number}-d"} if draft.chance(0.7) else {}
    draft.add("split", source.id, branches=branches, **default)
    names = [*(branch["id"] for branch in branches), *default.values()]
    draft.streams += [source._replace(id=name) for name in names]


def repartition(draft: Draft) -> None:
    """An explicit shuffle."""
    source = draft.stream()
    draft.streams.append(source._replace(id=draft.add("repartition", source.id)))


def to_table(draft: Draft) -> None:
    """A stream as a table, sometimes with versions."""
    source = draft.stream()
    store, versioned = draft.store(windowed=source.is_windowed), {}
    if not source.is_windowed and draft.chance(0.15):
        versioned = {"versioned_history_ms": draft.pick.choice([0, 10, 40])}
    table = draft.add("to_table", source.id, **store, **versioned)
    draft.tables.append(Handle(table, source.is_windowed, is_versioned=bool(versioned)))
    _read_by_processors(draft, {} if versioned else store)


def table_step(draft: Draft) -> None:
    """A stateless step of a table."""
    source, op = draft.table(), draft.pick.choice(["filter", "filter_not", "map_values", "transform_values"])
    store = draft.store(windowed=source.is_windowed)
    if op == "transform_values":
        if source.is_windowed or source.is_versioned:
            return
        transformer = draft.pick.choice(["describe", "shout", "count_calls", "remember_max"])
        stores = {"stores": [f"t{len(draft.nodes)}"]} if transformer in ("count_calls", "remember_max") else {}
        node = draft.add(op, source.id, transformer=transformer, **(store if not stores else _named(draft)), **stores)
    else:
        functions = MAPPERS if op == "map_values" else PREDICATES
        node = draft.add(op, source.id, fn=draft.pick.choice(functions), **store)
    draft.tables.append(source._replace(id=node))


def _named(draft: Draft) -> dict[str, str]:
    """A transformer with a store that is looked up fails in Kafka Streams, unless its result is stored."""
    return {"store": f"s{len(draft.nodes)}"}


def to_stream(draft: Draft) -> None:
    """The changes of a table."""
    source = draft.table()
    key = {"key": draft.pick.choice(("key", "key_first_char", "key_append:2"))} if draft.chance(0.5) else {}
    is_windowed = source.is_windowed and not key
    draft.streams.append(Handle(draft.add("to_stream", source.id, **key), is_windowed))


def _grouped(draft: Draft, source: Handle, number: int) -> str:
    name = {"name": f"by-{len(draft.nodes)}-{number}"}
    if draft.chance(0.5):
        return draft.add("group_by_key", source.id, **name)
    return draft.add("group_by", source.id, fn=draft.pick.choice(KEYS), **name)


def aggregate(draft: Draft) -> None:
    """An aggregation of a stream, with or without windows."""
    source = draft.stream()
    by_key = draft.chance(0.5)
    grouped = (
        draft.add("group_by_key", source.id) if by_key else draft.add("group_by", source.id, fn=draft.pick.choice(KEYS))
    )
    key_is_windowed = source.is_windowed and by_key
    if draft.chance(0.6) and not key_is_windowed:
        _windowed(draft, grouped, can_emit=True)
    else:
        _plain(draft, grouped, key_is_windowed)


def _plain(draft: Draft, grouped: str, key_is_windowed: bool) -> None:
    op, store = draft.pick.choice(["count", "reduce", "aggregate"]), draft.store(windowed=key_is_windowed)
    if op == "count":
        node = draft.add(op, grouped, **store)
    elif op == "reduce":
        node = draft.add(op, grouped, adder=draft.pick.choice(REDUCERS), **store)
    else:
        node = draft.add(op, grouped, **_aggregator(draft), **store)
    draft.tables.append(Handle(node, key_is_windowed))
    _read_by_processors(draft, store)


def _aggregator(draft: Draft) -> dict[str, str]:
    adder = draft.pick.choice(ADDERS)
    return {"initial": "0" if adder == "sum_len" else "", "adder": adder}


def _window(draft: Draft) -> dict[str, Any]:
    grace = draft.pick.choice(TIMES)
    size, advance = draft.pick.choice([(12, 4), (12, 5), (12, 12), (6, 1), (10, 9), (30, 10)])
    return draft.pick.choice([
        {"window": "tumbling", "size_ms": draft.pick.choice([1, 10, 10, 25]), "grace_ms": grace},
        {"window": "hopping", "size_ms": size, "advance_ms": advance, "grace_ms": grace},
        {"window": "sliding", "diff_ms": draft.pick.choice([1, 3, 10]), "grace_ms": grace},
        {"window": "session", "gap_ms": draft.pick.choice([1, 2, 10]), "grace_ms": grace},
    ])  # fmt: skip


def _windowed(draft: Draft, grouped: str, *, can_emit: bool) -> None:
    window = _window(draft)
    node = draft.add("windowed_by", grouped, **window)
    if can_emit and draft.chance(0.35):
        node = draft.add("emit", node, when="close")
    op, store = draft.pick.choice(["count", "reduce", "aggregate"]) if can_emit else "aggregate", draft.store()
    merger = {"merger": draft.pick.choice(MERGERS)} if window["window"] == "session" else {}
    if op == "count":
        node = draft.add(op, node, **store, **_retention(draft))
    elif op == "reduce":
        node = draft.add(op, node, adder=draft.pick.choice(REDUCERS), **store, **_retention(draft))
    elif can_emit:
        adder = {"initial": "", "adder": draft.pick.choice([*REDUCERS, "with_key", "concat_or_null:z"])}
        node = draft.add(op, node, **adder, **merger, **store)
    else:
        node = draft.add(op, node, initial="", **merger, **store)
    draft.tables.append(Handle(node, is_windowed=True, closes=True, can_join=can_emit))


def _retention(draft: Draft) -> dict[str, int]:
    return {"retention_ms": 1_000} if draft.chance(0.2) else {}


def cogroup(draft: Draft) -> None:
    """Several streams aggregated together."""
    sources = [draft.stream(plain=True) for _ in range(draft.pick.choice([2, 2, 3]))]
    groups = [_grouped(draft, source, number) for number, source in enumerate(sources)]
    adders = [draft.pick.choice([*REDUCERS, "with_key"]) for _ in groups]
    node = draft.add("cogroup", groups, adders=adders)
    if draft.chance(0.4):
        _windowed(draft, node, can_emit=False)
    else:
        store = draft.store()
        draft.tables.append(Handle(draft.add("aggregate", node, initial="", **store)))
        _read_by_processors(draft, store)


def ready_aggregations(draft: Draft) -> None:
    """Built-in aggregations, which only Millstream has; their result goes to a topic."""
    node = _grouped(draft, draft.stream(plain=True), 0)
    if draft.chance(0.6):
        node = draft.add("windowed_by", node, **_window(draft))
        node = draft.add("emit", node, when="close") if draft.chance(0.3) else node
    table = draft.add("agg", node, store=f"s{len(draft.nodes)}")
    draft.add("to", draft.add("to_stream", table), topic=f"agg{len(draft.nodes)}")


def regroup(draft: Draft) -> None:
    """A table grouped by another key and aggregated."""
    source = draft.table()
    no_pair = {"no_pair_if": draft.pick.choice(PREDICATES)} if draft.chance(0.2) else {}
    key, value = draft.pick.choice(KEYS), draft.pick.choice(("value", "value_text", "key_value", "first_char"))
    grouped = draft.add("group_by", source.id, key=key, value=value, **no_pair)
    op, (adder, subtractor) = draft.pick.choice(["count", "reduce", "aggregate"]), draft.pick.choice(PAIRS)
    store = draft.store()
    if op == "count":
        node = draft.add(op, grouped, **store)
    elif op == "reduce":
        adder, subtractor = draft.pick.choice(PAIRS[:3])
        node = draft.add(op, grouped, adder=adder, subtractor=subtractor, **store)
    else:
        initial = "0" if adder == "sum_len" else ""
        node = draft.add(op, grouped, initial=initial, adder=adder, subtractor=subtractor, **store)
    draft.tables.append(Handle(node))
    _read_by_processors(draft, store)


def stream_join(draft: Draft) -> None:
    """A join of two streams within a time."""
    left = draft.stream()
    right = draft.pick.choice([handle for handle in draft.streams if handle.is_windowed == left.is_windowed])
    op = draft.pick.choice(["join", "left_join", "outer_join"])
    before, after = draft.pick.choice([(5, 5), (0, 10), (10, 0), (10, 10), (-2, 10), (40, 40)])
    joined = draft.add(
        op, [left.id, right.id], joiner=draft.pick.choice([*JOINERS, "concat_key"]), before_ms=before, after_ms=after,
        grace_ms=draft.pick.choice(TIMES),
    )  # fmt: skip
    draft.streams.append(left._replace(id=joined))


def stream_table_join(draft: Draft) -> None:
    """A stream joined with a table."""
    right = draft.table()
    lefts = [handle for handle in draft.streams if handle.is_windowed == right.is_windowed]
    if not lefts:
        return
    left, op = draft.pick.choice(lefts), draft.pick.choice(["join", "left_join"])
    joiner = draft.pick.choice([*JOINERS, "concat_key"])
    draft.streams.append(left._replace(id=draft.add(op, [left.id, right.id], joiner=joiner)))


def global_join(draft: Draft) -> None:
    """A stream joined with a global table."""
    if not draft.global_tables:
        store = f"g{len(draft.nodes)}"
        draft.global_tables.append((draft.add("global_table", topic="global", store=store), store))
        draft.topics.append("global")
    source, (table, _) = draft.stream(), draft.pick.choice(draft.global_tables)
    op, joiner = draft.pick.choice(["join", "left_join"]), draft.pick.choice(JOINERS)
    key = draft.pick.choice(("key", "first_char", "value_field:0", "key_first_char"))
    draft.streams.append(source._replace(id=draft.add(op, [source.id, table], joiner=joiner, key=key)))


def table_join(draft: Draft) -> None:
    """A join of two tables."""
    tables = [handle for handle in draft.tables if handle.can_join]
    if not tables:
        return
    left = draft.pick.choice(tables)
    right = draft.pick.choice([handle for handle in tables if handle.is_windowed == left.is_windowed])
    op = draft.pick.choice(["join", "left_join", "outer_join"])
    store = draft.store(windowed=left.is_windowed)
    joined = draft.add(op, [left.id, right.id], joiner=draft.pick.choice(JOINERS), **store)
    draft.tables.append(Handle(joined, left.is_windowed, left.closes and right.closes))
    _read_by_processors(draft, store)


def foreign_key_join(draft: Draft) -> None:
    """A join of two tables by a foreign key; no record changes both, since the order of the changes would be open."""
    left = draft.table(plain=True)
    origins = draft.origins
    rights = [handle for handle in draft.tables if not handle.is_windowed and not origins[handle.id] & origins[left.id]]
    if not rights:
        return
    right = draft.pick.choice(rights)
    op, key = draft.pick.choice(["join", "left_join"]), draft.pick.choice(("value_field:0", "first_char", "value_text"))
    store = draft.store()
    joined = draft.add(op, [left.id, right.id], joiner=draft.pick.choice(JOINERS), foreign_key=key, **store)
    draft.tables.append(Handle(joined))
    _read_by_processors(draft, store)


def suppress(draft: Draft) -> None:
    """Results held back until a window closes, or for some time."""
    source = draft.table()
    if source.is_versioned:
        return
    if source.closes and draft.chance(0.6):
        node = draft.add("suppress", source.id, until="window_closes")
    else:
        limit = {"max_records": draft.pick.choice([1, 2])} if draft.chance(0.3) else {}
        node = draft.add("suppress", source.id, until="time_limit", wait_ms=draft.pick.choice(TIMES), **limit)
    draft.tables.append(source._replace(id=node))


def process(draft: Draft) -> None:
    """A processor, with stores and timers."""
    source, processor = draft.stream(plain=True), draft.pick.choice(PROCESSORS)
    if draft.table_stores and draft.chance(0.25):
        draft.streams.append(
            Handle(draft.add("process", source.id, processor="store_get", store=draft.pick.choice(draft.table_stores)))
        )
        return
    number = len(draft.nodes)
    names = {"count_and_last": 2, "owner_index": 2}.get(
        processor, 0 if "shift" in processor or "ticks" in processor else 1
    )
    stores: dict[str, Any] = {"store": f"p{number}"} if names else {}
    if names == 2:
        stores["stores"] = [f"q{number}"]
    draft.has_wall_clock |= "wall" in processor
    draft.streams.append(Handle(draft.add("process", source.id, processor=processor, **stores)))


def process_values(draft: Draft) -> None:
    """A processor that keeps keys."""
    source, processor = draft.stream(plain=True), draft.pick.choice(["stamp_time", "number_values", "swap_last"])
    store = {} if processor == "stamp_time" else {"store": f"p{len(draft.nodes)}"}
    draft.streams.append(source._replace(id=draft.add("process_values", source.id, processor=processor, **store)))


def _read_by_processors(draft: Draft, store: dict[str, str]) -> None:
    draft.table_stores += store.values()


VERBS: dict[Callable[[Draft], None], int] = {
    stateless: 6, rekey: 5, merge: 3, split: 2, repartition: 2, to_table: 4, table_step: 5, to_stream: 5, aggregate: 9,
    cogroup: 3, regroup: 5, stream_join: 6, stream_table_join: 4, global_join: 1, table_join: 5, foreign_key_join: 4,
    suppress: 3, process: 4, process_values: 2,
}  # fmt: skip
"""Each verb with its weight."""

OF_TABLES = (table_step, to_stream, regroup, stream_table_join, table_join, foreign_key_join, suppress)
