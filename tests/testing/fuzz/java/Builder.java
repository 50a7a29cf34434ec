import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/** Builds the topology of a case with the DSL of Kafka Streams. */
@SuppressWarnings("unchecked")
final class Builder {
    final StreamsBuilder builder = new StreamsBuilder();
    private final Map<String, Object> handles = new HashMap<>();
    private final Set<String> tableStores = new HashSet<>();
    private final Set<String> added = new HashSet<>();

    private final JsonNode nodes;

    /** With {@code cachesAll} false only the tables have a cache that have one in Millstream: aggregations, tables of topics and streams, joins by foreign key. */
    Builder(JsonNode nodes, boolean cachesAll) {
        this.nodes = nodes;
        for (JsonNode node : nodes) {
            boolean caches = Set.of("count", "reduce", "aggregate", "table", "to_table").contains(node.get("op").asText())
                || node.has("foreign_key");
            ((ObjectNode) node).put("uncached", !cachesAll && !caches);
        }
        for (JsonNode node : nodes) {
            if (node.has("store") && !node.has("processor")) {
                tableStores.add(node.get("store").asText());
            }
        }
        for (JsonNode node : nodes) {
            handles.put(node.get("id").asText(), build(node));
        }
    }

    private Object source(JsonNode node, int number) {
        JsonNode in = node.get("in");
        Object handle = handles.get(in.isArray() ? in.get(number).asText() : in.asText());
        if (handle == null) {
            throw new IllegalStateException("no handle for " + in);
        }
        return handle;
    }

    private KStream<Object, Object> stream(JsonNode node) {
        return (KStream<Object, Object>) source(node, 0);
    }

    private Object build(JsonNode node) {
        Object in = node.has("in") ? source(node, 0) : null;
        String op = node.get("op").asText();
        return switch (op) {
            case "stream" -> Sources.stream(builder, node);
            case "table" -> table(node);
            case "global_table" -> globalTable(node);
            case "filter" -> filter(node, in, false);
            case "filter_not" -> filter(node, in, true);
            case "map_values" -> mapValues(node, in);
            case "map" -> stream(node).map((k, v) -> KeyValue.pair(
                Functions.map(node.get("key").asText(), k, v), Functions.map(node.get("value").asText(), k, v)));
            case "flat_map_values" -> stream(node).flatMapValues(v -> Functions.list(fn(node), v));
            case "flat_map" -> stream(node).flatMap((k, v) -> {
                List<KeyValue<Object, Object>> pairs = new ArrayList<>();
                for (Object item : Functions.list(fn(node), v)) {
                    pairs.add(KeyValue.pair(Functions.map(node.get("key").asText(), k, item), item));
                }
                return pairs;
            });
            case "select_key" -> stream(node).selectKey((k, v) -> Functions.map(fn(node), k, v));
            case "merge" -> stream(node).merge((KStream<Object, Object>) source(node, 1));
            case "split" -> split(node);
            case "repartition" -> stream(node).repartition();
            case "to_table" -> toTable(node);
            case "to_stream" -> node.has("key")
                ? ((KTable<Object, Object>) in).toStream((k, v) -> Functions.map(node.get("key").asText(), k, v))
                : ((KTable<Object, Object>) in).toStream();
            case "group_by_key" -> node.has("name")
                ? stream(node).groupByKey(Grouped.as(node.get("name").asText())) : stream(node).groupByKey();
            case "group_by" -> groupBy(node, in);
            case "windowed_by" -> windowedBy(node, in);
            case "emit" -> emit(in, node.get("when").asText());
            case "count", "reduce", "aggregate" -> Aggregations.build(node, in);
            case "cogroup" -> cogroup(node);
            case "join", "left_join", "outer_join" -> Joins.build(node, in, source(node, 1));
            case "suppress" -> suppress(node, (KTable<Object, Object>) in);
            case "process" -> stream(node).process(() -> Processors.create(node.get("processor").asText(), stores(node), global(node)),
                named(node), attached(node));
            case "process_values" -> stream(node).processValues(
                () -> Processors.ofValues(node.get("processor").asText(), stores(node), global(node)), named(node), attached(node));
            case "transform_values" -> transformValues(node, (KTable<Object, Object>) in);
            case "to" -> {
                stream(node).to(node.get("topic").asText(), produced(node));
                yield "sink";
            }
            case "to_dynamic" -> {
                String prefix = node.get("prefix").asText();
                stream(node).to((k, v, context) -> prefix + Functions.text(Functions.map(node.get("by").asText(), k, v)));
                yield "sink";
            }
            default -> throw new IllegalArgumentException(op);
        };
    }

    private static Named named(JsonNode node) {
        return Named.as(node.has("name") ? node.get("name").asText() : "step-" + node.get("id").asText());
    }

    private static String global(JsonNode node) {
        return node.has("global") ? node.get("global").asText() : "";
    }

    private Produced<Object, Object> produced(JsonNode node) {
        Produced<Object, Object> produced = Produced.with(null, null);
        for (JsonNode other : nodes) {
            if (Sources.reads(other, node.get("topic").asText())) {
                produced = Produced.with(new AnySerde.Keys(), new Sources.Texts());
            }
        }
        return node.has("name") ? produced.withName(node.get("name").asText()) : produced;
    }

    private Object globalTable(JsonNode node) {
        var stored = stored(node);
        String topic = node.get("topic").asText();
        Consumed<Object, Object> consumed = Sources.consumed(node);
        return stored == null ? builder.globalTable(topic, consumed) : builder.globalTable(topic, consumed, stored);
    }

    private static String fn(JsonNode node) {
        return node.get("fn").asText();
    }

    static Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> stored(JsonNode node) {
        if (node.has("versioned_history_ms")) {
            String name = node.has("store") ? node.get("store").asText() : "versioned-" + node.get("id").asText();
            return Materialized.as(Stores.persistentVersionedKeyValueStore(
                name, Duration.ofMillis(node.get("versioned_history_ms").asLong())));
        }
        if (!node.path("uncached").asBoolean()) {
            return node.has("store") ? Materialized.as(node.get("store").asText()) : null;
        }
        Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> uncached =
            node.has("store") ? Materialized.as(node.get("store").asText()) : null;
        if (uncached == null && node.get("op").asText().contains("table")) {
            uncached = Materialized.with(null, null);
        }
        return uncached == null ? null : uncached.withCachingDisabled();
    }

    private Object table(JsonNode node) {
        var stored = stored(node);
        String topic = node.get("topic").asText();
        Consumed<Object, Object> consumed = Sources.consumed(node);
        return stored == null ? builder.table(topic, consumed) : builder.table(topic, consumed, stored);
    }

    private Object toTable(JsonNode node) {
        var stored = stored(node);
        return stored == null ? stream(node).toTable() : stream(node).toTable(stored);
    }

    private Object filter(JsonNode node, Object in, boolean not) {
        Predicate<Object, Object> predicate = (k, v) -> Functions.test(fn(node), k, v);
        if (in instanceof KStream<?, ?>) {
            return not ? stream(node).filterNot(predicate, named(node)) : stream(node).filter(predicate, named(node));
        }
        KTable<Object, Object> table = (KTable<Object, Object>) in;
        var stored = stored(node);
        if (stored == null) {
            return not ? table.filterNot(predicate) : table.filter(predicate);
        }
        return not ? table.filterNot(predicate, stored) : table.filter(predicate, stored);
    }

    private Object mapValues(JsonNode node, Object in) {
        ValueMapperWithKey<Object, Object, Object> mapper = (k, v) -> Functions.map(fn(node), k, v);
        if (in instanceof KStream<?, ?>) {
            return stream(node).mapValues(mapper, named(node));
        }
        var stored = stored(node);
        KTable<Object, Object> table = (KTable<Object, Object>) in;
        return stored == null ? table.mapValues(mapper) : table.mapValues(mapper, stored);
    }

    private Object split(JsonNode node) {
        String prefix = node.get("id").asText() + "-";
        BranchedKStream<Object, Object> branched = stream(node).split(Named.as(prefix));
        for (JsonNode branch : node.get("branches")) {
            branched = branched.branch((k, v) -> Functions.test(branch.get("when").asText(), k, v),
                Branched.as(branch.get("id").asText()));
        }
        Map<String, KStream<Object, Object>> branches =
            node.has("default") ? branched.defaultBranch(Branched.as(node.get("default").asText())) : branched.noDefaultBranch();
        branches.forEach((name, stream) -> handles.put(name.substring(prefix.length()), stream));
        return "split";
    }

    private Object groupBy(JsonNode node, Object in) {
        if (in instanceof KStream<?, ?>) {
            KeyValueMapper<Object, Object, Object> key = (k, v) -> Functions.map(fn(node), k, v);
            return node.has("name")
                ? stream(node).groupBy(key, Grouped.as(node.get("name").asText())) : stream(node).groupBy(key);
        }
        String noPair = node.has("no_pair_if") ? node.get("no_pair_if").asText() : "none";
        return ((KTable<Object, Object>) in).groupBy((k, v) -> Functions.test(noPair, k, v) ? null : KeyValue.pair(
            Functions.map(node.get("key").asText(), k, v), Functions.map(node.get("value").asText(), k, v)));
    }

    private static Duration ms(JsonNode node, String name) {
        return Duration.ofMillis(node.get(name).asLong());
    }

    private Object windowedBy(JsonNode node, Object in) {
        Duration grace = node.has("grace_ms") ? ms(node, "grace_ms") : Duration.ZERO;
        boolean cogrouped = in instanceof CogroupedKStream<?, ?>;
        KGroupedStream<Object, Object> grouped = cogrouped ? null : (KGroupedStream<Object, Object>) in;
        CogroupedKStream<Object, Object> cogroup = cogrouped ? (CogroupedKStream<Object, Object>) in : null;
        switch (node.get("window").asText()) {
            case "unlimited": {
                UnlimitedWindows windows = UnlimitedWindows.of().startOn(java.time.Instant.ofEpochMilli(node.get("start_ms").asLong()));
                return grouped.windowedBy(windows);
            }
            case "session": {
                SessionWindows windows = SessionWindows.ofInactivityGapAndGrace(ms(node, "gap_ms"), grace);
                return cogrouped ? cogroup.windowedBy(windows) : grouped.windowedBy(windows);
            }
            case "sliding": {
                SlidingWindows windows = SlidingWindows.ofTimeDifferenceAndGrace(ms(node, "diff_ms"), grace);
                return cogrouped ? cogroup.windowedBy(windows) : grouped.windowedBy(windows);
            }
            default: {
                TimeWindows windows = TimeWindows.ofSizeAndGrace(ms(node, "size_ms"), grace);
                if (node.has("advance_ms")) {
                    windows = windows.advanceBy(ms(node, "advance_ms"));
                }
                return cogrouped ? cogroup.windowedBy(windows) : grouped.windowedBy(windows);
            }
        }
    }

    private Object emit(Object in, String when) {
        EmitStrategy strategy = when.equals("close") ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
        return in instanceof SessionWindowedKStream<?, ?> session
            ? session.emitStrategy(strategy) : ((TimeWindowedKStream<Object, Object>) in).emitStrategy(strategy);
    }

    private Object cogroup(JsonNode node) {
        CogroupedKStream<Object, Object> cogrouped = null;
        for (int i = 0; i < node.get("in").size(); i++) {
            String adder = node.get("adders").get(i).asText();
            Aggregator<Object, Object, Object> add = (k, v, g) -> Functions.aggregate(adder, k, g, v);
            KGroupedStream<Object, Object> grouped = (KGroupedStream<Object, Object>) source(node, i);
            cogrouped = cogrouped == null ? grouped.cogroup(add) : cogrouped.cogroup(grouped, add);
        }
        return cogrouped;
    }

    private Object suppress(JsonNode node, KTable<Object, Object> table) {
        boolean bounded = node.has("max_records");
        if (node.get("until").asText().equals("window_closes")) {
            Suppressed.StrictBufferConfig buffer = bounded
                ? Suppressed.BufferConfig.maxRecords(node.get("max_records").asLong()).shutDownWhenFull()
                : Suppressed.BufferConfig.unbounded();
            return table.suppress((Suppressed<Object>) (Suppressed<?>) Suppressed.untilWindowCloses(buffer));
        }
        Duration wait = ms(node, "wait_ms");
        if (!bounded) {
            return table.suppress(Suppressed.untilTimeLimit(wait, Suppressed.BufferConfig.unbounded()));
        }
        var buffer = Suppressed.BufferConfig.maxRecords(node.get("max_records").asLong());
        boolean stops = node.has("when_full") && node.get("when_full").asText().equals("shut_down");
        return table.suppress(Suppressed.untilTimeLimit(wait, stops ? buffer.shutDownWhenFull() : buffer.emitEarlyWhenFull()));
    }

    private List<String> stores(JsonNode node) {
        List<String> names = new ArrayList<>();
        if (node.has("store") && !node.get("op").asText().equals("transform_values")) {
            names.add(node.get("store").asText());
        }
        if (node.has("stores")) {
            node.get("stores").forEach(name -> names.add(name.asText()));
        }
        return names;
    }

    private String[] attached(JsonNode node) {
        List<String> names = stores(node);
        for (String name : names) {
            if (!tableStores.contains(name) && added.add(name)) {
                builder.addStateStore(Stores.keyValueStoreBuilder(
                    Stores.persistentKeyValueStore(name), new AnySerde.Keys(), new AnySerde.Values()));
            }
        }
        return names.toArray(new String[0]);
    }

    private Object transformValues(JsonNode node, KTable<Object, Object> table) {
        ValueTransformerWithKeySupplier<Object, Object, Object> supplier =
            () -> Processors.transformer(node.get("transformer").asText(), stores(node));
        var stored = stored(node);
        return stored == null
            ? table.transformValues(supplier, attached(node)) : table.transformValues(supplier, stored, attached(node));
    }
}
