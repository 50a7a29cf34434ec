"""Build the topology of a conformance case through the public DSL, as a user would write it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

from millstream.app import App
from millstream.config import Config
from millstream.dsl.cogrouped import CogroupedStream, WindowedCogroup
from millstream.dsl.global_table import GlobalTable
from millstream.dsl.grouped_table import GroupedTable
from millstream.dsl.measures import collect_of, count_of, last_of
from millstream.dsl.stream import Stream
from millstream.dsl.windowed import WindowedStream
from millstream.errors import DefinitionError
from millstream.processors import Processor, StoreSpec, ValueTransformer, key_value_store, table_store
from millstream.serdes import JSON, TEXT
from millstream.suppression import Suppression, until_time_limit, until_window_closes
from millstream.testing.conformance.functions import (
    AGGREGATORS,
    JOINERS,
    LISTERS,
    MAPPERS,
    PREDICATES,
    of_pair,
    of_three,
    text,
)
from millstream.testing.conformance.processors import processor, transformer
from millstream.testing.conformance.sources import reads, source_serdes, source_settings
from millstream.windows import Windows, hopping, join_window, session, sliding, tumbling, unlimited

Node = dict[str, Any]
_MAX_MILLISECONDS = 10**16


class UnsupportedCaseError(DefinitionError):
    """The case uses an operator that Millstream does not have yet."""


class Topology:
    """The app of a case, built node by node; ``handles`` has the handle of each node."""

    def __init__(self, nodes: list[Node], settings: dict[str, Any]) -> None:
        self.app = App("conformance", config=_config(settings))
        self.handles: dict[str, Any] = {}
        self._nodes = nodes
        self.tables = {node["store"] for node in nodes if "store" in node and "processor" not in node}
        for node in nodes:
            build = BUILDERS.get(node["op"])
            if build is None:
                raise UnsupportedCaseError(f"{node['op']!r} is not supported")
            try:
                self.handles[node["id"]] = build(self, node)
            except TypeError as error:
                if "unexpected keyword argument" not in str(error):
                    raise
                raise DefinitionError(f"{node['op']} does not accept an argument: {error}") from error

    def source(self, node: Node) -> Any:
        """Return the handle of a node's input, or a list of handles."""
        sources = node["in"]
        return self.handles[sources] if isinstance(sources, str) else [self.handles[source] for source in sources]

    def sink_serdes(self, topic: str) -> dict[str, Any]:
        """Return the serdes of a sink: text if the topology also reads the topic, otherwise JSON, which keeps types."""
        return dict.fromkeys(("key", "value"), TEXT if any(reads(node, topic) for node in self._nodes) else JSON)


def _config(settings: dict[str, Any]) -> Config:
    """Return the error policies of a case; Kafka's ``continue`` with a dead letter topic is ``dead_letter`` here."""
    topic = settings.get("dead_letter_topic")
    continue_policy: Literal["dead_letter", "skip"] = "skip" if topic is None else "dead_letter"
    return Config(
        on_error=continue_policy if settings.get("processing_handler") == "continue" else "fail",
        on_decode_error=continue_policy if settings.get("deserialization_handler") == "continue" else "fail",
        dead_letter_topic=topic,
    )


Build = Callable[[Topology, Node], Any]


def _name(node: Node) -> str:
    return str(_stored(node).get("name") or node["id"])


def _ms(number: int) -> timedelta:
    return timedelta(milliseconds=min(number, _MAX_MILLISECONDS))


def _stream(topology: Topology, node: Node) -> Stream:
    if "pattern" in node:
        return topology.app.stream(pattern=node["pattern"], **source_settings(node))
    return topology.app.stream(*node.get("topics", [node.get("topic")]), **source_settings(node))


def _split(topology: Topology, node: Node) -> None:
    splitter = topology.source(node).split()
    for branch in node["branches"]:
        splitter = splitter.branch(of_pair(PREDICATES, branch["when"]), name=branch["id"])
        topology.handles[branch["id"]] = splitter.branches[branch["id"]]
    if "default" in node:
        splitter.default()
        topology.handles[node["default"]] = splitter.branches["default"]


def _windows(node: Node) -> Windows:
    kind, grace = node["window"], _ms(node.get("grace_ms", 0))
    if kind == "tumbling":
        return tumbling(_ms(node["size_ms"]), grace=grace)
    if kind == "hopping":
        return hopping(_ms(node["size_ms"]), every=_ms(node["advance_ms"]), grace=grace)
    if kind == "sliding":
        return sliding(_ms(node["diff_ms"]), grace=grace)
    if kind == "session":
        return session(gap=_ms(node["gap_ms"]), grace=grace)
    return unlimited(start=node["start_ms"])


def _retention(node: Node) -> dict[str, Any]:
    return {"retention": _ms(node["retention_ms"])} if "retention_ms" in node else {}


def _grouped(topology: Topology, node: Node) -> Any:
    return topology.source(node)


def _aggregate(topology: Topology, node: Node) -> Any:
    initial, source = node["initial"], topology.source(node)
    if isinstance(source, CogroupedStream):
        return source.aggregate(lambda: initial, name=_name(node))
    if isinstance(source, WindowedCogroup):
        merge = of_three(AGGREGATORS, node["merger"]) if "merger" in node else None
        return source.aggregate(lambda: initial, merge, name=_name(node), **_retention(node))
    add, source = of_three(AGGREGATORS, node["adder"]), _grouped(topology, node)
    if isinstance(source, GroupedTable):
        return source.aggregate(lambda: initial, add, of_three(AGGREGATORS, node["subtractor"]), name=_name(node))
    if isinstance(source, WindowedStream):
        merge = of_three(AGGREGATORS, node["merger"]) if "merger" in node else None
        return source.aggregate(lambda: initial, add, merge, name=_name(node), **_retention(node))
    return source.aggregate(lambda: initial, add, name=_name(node))


def _reduce(topology: Topology, node: Node) -> Any:
    """Combine values; JSON, since aggregators make text of two counts."""
    source, add = _grouped(topology, node), of_three(AGGREGATORS, node["adder"])
    if isinstance(source, GroupedTable):
        return source.reduce(add, of_three(AGGREGATORS, node["subtractor"]), name=_name(node), value=JSON)
    return source.reduce(add, name=_name(node), value=JSON, **_retention(node))


def _group_by(topology: Topology, node: Node) -> Any:
    source = topology.source(node)
    if isinstance(source, Stream):
        return source.group_by(of_pair(MAPPERS, node["fn"]))
    key, no_pair = of_pair(MAPPERS, node["key"]), of_pair(PREDICATES, node.get("no_pair_if", "none"))
    return source.group_by(lambda k, v: None if no_pair(k, v) else key(k, v), values=of_pair(MAPPERS, node["value"]))


def _join(topology: Topology, node: Node, verb: str) -> Any:
    left, right = topology.source(node)
    if isinstance(left, Stream) and isinstance(right, Stream):
        within = join_window(before=_ms(node["before_ms"]), after=_ms(node["after_ms"]), grace=_ms(node["grace_ms"]))
        joiner = of_three(JOINERS, node["joiner"])
        joined: Stream = getattr(left, verb)(right, joiner, within=within, name=node["id"])
        return joined
    if isinstance(right, GlobalTable):
        looked_up: Stream = getattr(left, verb)(
            right, of_three(JOINERS, node["joiner"]), key=of_pair(MAPPERS, node["key"])
        )
        return looked_up
    if "foreign_key" in node:
        on, joiner = of_pair(MAPPERS, node["foreign_key"]), of_three(JOINERS, node["joiner"])
        return getattr(left, verb)(right, joiner, on=on, name=node.get("store"))
    settings = _grace(node) if isinstance(left, Stream) else _stored(node)
    return getattr(left, verb)(right, of_three(JOINERS, node["joiner"]), **settings)


def _grace(node: Node) -> dict[str, Any]:
    return {"grace": _ms(node["grace_ms"]), "name": node["id"]} if "grace_ms" in node else {}


def _stored(node: Node) -> dict[str, Any]:
    if "versioned_history_ms" in node:
        name = node.get("store", f"versioned-{node['id']}")
        return {"name": name, "history": _ms(node["versioned_history_ms"])}
    name = node.get("store") or node.get("name")
    return {"name": name} if name else {}


def _stream_of(topology: Topology, node: Node) -> Any:
    return topology.source(node)


def _cogroup(topology: Topology, node: Node) -> CogroupedStream:
    first, *rest = topology.source(node)
    adders = [of_three(AGGREGATORS, adder) for adder in node["adders"]]
    cogrouped: CogroupedStream = first.cogroup(adders[0])
    for grouped, adder in zip(rest, adders[1:], strict=True):
        cogrouped = cogrouped.cogroup(grouped, adder)
    return cogrouped


def _step_name(node: Node) -> str:
    return str(node.get("name") or node["id"])


def _processor(topology: Topology, node: Node) -> type[Processor]:
    stores = _attached(topology, [*filter(None, [node.get("store")]), *node.get("stores", [])])
    return processor(node["processor"], stores, node.get("global", ""))


def _transformer(topology: Topology, node: Node) -> type[ValueTransformer]:
    return transformer(node["transformer"], _attached(topology, node.get("stores", [])))


def _attached(topology: Topology, stores: list[str]) -> list[StoreSpec]:
    """Return stores by name: those of tables, which the case can define later, and new ones."""
    return [table_store(name) if name in topology.tables else key_value_store(name=name) for name in stores]


BUILDERS: dict[str, Build] = {
    "global_table": lambda t, n: t.app.global_table(n["topic"], **source_serdes(n), **_stored(n)),
    "cogroup": _cogroup,
    "suppress": lambda t, n: t.source(n).suppress(_until(n), name=n["id"]),
    "stream": _stream,
    "table": lambda t, n: t.app.table(n["topic"], **source_settings(n), **_stored(n)),
    "to_table": lambda t, n: _stream_of(t, n).to_table(**_stored(n)),
    "filter": lambda t, n: t.source(n).filter(of_pair(PREDICATES, n["fn"]), **_stored(n)),
    "filter_not": lambda t, n: t.source(n).filter_not(of_pair(PREDICATES, n["fn"]), **_stored(n)),
    "map_values": lambda t, n: t.source(n).map_values(of_pair(MAPPERS, n["fn"]), **_stored(n)),
    "join": lambda t, n: _join(t, n, "join"),
    "left_join": lambda t, n: _join(t, n, "left_join"),
    "outer_join": lambda t, n: _join(t, n, "outer_join"),
    "map": lambda t, n: _stream_of(t, n).map(_pair_of(of_pair(MAPPERS, n["key"]), of_pair(MAPPERS, n["value"]))),
    "flat_map_values": lambda t, n: _stream_of(t, n).flat_map_values(of_pair(LISTERS, n["fn"])),
    "flat_map": lambda t, n: _stream_of(t, n).flat_map(_pairs(of_pair(LISTERS, n["fn"]), of_pair(MAPPERS, n["key"]))),
    "select_key": lambda t, n: _stream_of(t, n).select_key(of_pair(MAPPERS, n["fn"])),
    "merge": lambda t, n: t.source(n)[0].merge(*t.source(n)[1:]),
    "split": _split,
    "repartition": lambda t, n: _stream_of(t, n).repartition(n.get("partitions"), name=n["id"]),
    "to_stream": lambda t, n: t.source(n).to_stream(of_pair(MAPPERS, n["key"]) if "key" in n else None),
    "group_by_key": lambda t, n: _stream_of(t, n).group_by_key(),
    "group_by": _group_by,
    "windowed_by": lambda t, n: t.source(n).windowed_by(_windows(n)),
    "emit": lambda t, n: t.source(n).emit("final" if n["when"] == "close" else "updates"),
    "count": lambda t, n: _grouped(t, n).count(**{"name": _name(n), **_retention(n), **_stored(n)}),
    "agg": lambda t, n: t.source(n).agg(n=count_of(), last=last_of(), all=collect_of(), name=_name(n)),
    "reduce": _reduce,
    "aggregate": _aggregate,
    "process": lambda t, n: _stream_of(t, n).process(_processor(t, n), name=_step_name(n)),
    "process_values": lambda t, n: _stream_of(t, n).process_values(_processor(t, n), name=_step_name(n)),
    "transform_values": lambda t, n: t.source(n).transform_values(_transformer(t, n), name=n.get("store")),
    "to": lambda t, n: t.source(n).to(n["topic"], name=n.get("name"), **t.sink_serdes(n["topic"])),
    "to_dynamic": lambda t, n: t.source(n).to(_computed(n), key=TEXT, value=JSON),
}


def _until(node: Node) -> Suppression:
    bound = node.get("max_records")
    if node["until"] == "window_closes":
        return until_window_closes(max_records=bound)
    return until_time_limit(_ms(node["wait_ms"]), max_records=bound, when_full=node.get("when_full", "emit_early"))


def _computed(node: Node) -> Callable[[Any, Any], str]:
    by, prefix = of_pair(MAPPERS, node["by"]), node["prefix"]
    return lambda k, v: prefix + text(by(k, v))


def _pair_of(key: Callable[[Any, Any], Any], value: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda k, v: (key(k, v), value(k, v))


def _pairs(lister: Callable[[Any, Any], Any], key: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda k, v: [(key(k, item), item) for item in lister(k, v)]
