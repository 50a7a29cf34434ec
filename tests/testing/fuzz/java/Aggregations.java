import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** Aggregations of all kinds of groups. */
@SuppressWarnings("unchecked")
final class Aggregations {
    private Aggregations() {}

    static Object build(JsonNode node, Object in) {
        String initial = node.has("initial") ? node.get("initial").asText() : null;
        Initializer<Object> first = () -> initial;
        String adder = node.has("adder") ? node.get("adder").asText() : null;
        Aggregator<Object, Object, Object> add = (k, v, g) -> Functions.aggregate(adder, k, g, v);
        Reducer<Object> reduce = (g, v) -> Functions.aggregate(adder, null, g, v);
        String merger = node.has("merger") ? node.get("merger").asText() : null;
        Merger<Object, Object> merge = (k, g, v) -> Functions.aggregate(merger, k, g, v);
        String op = node.get("op").asText();
        if (in instanceof KGroupedTable<?, ?>) {
            return ofTable(node, (KGroupedTable<Object, Object>) in, op, first, add, reduce);
        }
        if (in instanceof KGroupedStream<?, ?>) {
            KGroupedStream<Object, Object> grouped = (KGroupedStream<Object, Object>) in;
            var stored = Builder.stored(node);
            return switch (op) {
                case "count" -> stored == null ? grouped.count(counted()) : grouped.count((Materialized) stored.withValueSerde(new AnySerde.Values()));
                case "reduce" -> stored == null ? grouped.reduce(reduce) : grouped.reduce(reduce, stored);
                default -> stored == null ? grouped.aggregate(first, add) : grouped.aggregate(first, add, stored);
            };
        }
        if (in instanceof CogroupedKStream<?, ?>) {
            var stored = Builder.stored(node);
            CogroupedKStream<Object, Object> grouped = (CogroupedKStream<Object, Object>) in;
            return stored == null ? grouped.aggregate(first) : grouped.aggregate(first, stored);
        }
        Materialized<Object, Object, WindowStore<Bytes, byte[]>> windows =
            node.has("store") ? Materialized.as(node.get("store").asText()) : Materialized.with(null, null);
        Materialized<Object, Object, SessionStore<Bytes, byte[]>> sessions =
            node.has("store") ? Materialized.as(node.get("store").asText()) : Materialized.with(null, null);
        if (node.has("retention_ms")) {
            windows = windows.withRetention(Duration.ofMillis(node.get("retention_ms").asLong()));
            sessions = sessions.withRetention(Duration.ofMillis(node.get("retention_ms").asLong()));
        }
        if (in instanceof TimeWindowedCogroupedKStream<?, ?>) {
            return ((TimeWindowedCogroupedKStream<Object, Object>) in).aggregate(first, windows);
        }
        if (in instanceof SessionWindowedCogroupedKStream<?, ?>) {
            return ((SessionWindowedCogroupedKStream<Object, Object>) in).aggregate(first, merge, sessions);
        }
        if (in instanceof SessionWindowedKStream<?, ?>) {
            SessionWindowedKStream<Object, Object> grouped = (SessionWindowedKStream<Object, Object>) in;
            return switch (op) {
                case "count" -> grouped.count((Materialized) sessions.withValueSerde(new AnySerde.Values()));
                case "reduce" -> grouped.reduce(reduce, sessions);
                default -> grouped.aggregate(first, add, merge, sessions);
            };
        }
        TimeWindowedKStream<Object, Object> grouped = (TimeWindowedKStream<Object, Object>) in;
        return switch (op) {
            case "count" -> grouped.count((Materialized) windows.withValueSerde(new AnySerde.Values()));
            case "reduce" -> grouped.reduce(reduce, windows);
            default -> grouped.aggregate(first, add, windows);
        };
    }

    /** Counts are written as all other values, whatever reads them. */
    private static Materialized counted() {
        return Materialized.with(null, new AnySerde.Values());
    }

    private static Object ofTable(JsonNode node, KGroupedTable<Object, Object> grouped, String op,
            Initializer<Object> first, Aggregator<Object, Object, Object> add, Reducer<Object> reduce) {
        String subtractor = node.has("subtractor") ? node.get("subtractor").asText() : null;
        Aggregator<Object, Object, Object> subtract = (k, v, g) -> Functions.aggregate(subtractor, k, g, v);
        Reducer<Object> unreduce = (g, v) -> Functions.aggregate(subtractor, null, g, v);
        var stored = Builder.stored(node);
        return switch (op) {
            case "count" -> stored == null ? grouped.count(counted()) : grouped.count((Materialized) stored.withValueSerde(new AnySerde.Values()));
            case "reduce" -> stored == null ? grouped.reduce(reduce, unreduce) : grouped.reduce(reduce, unreduce, stored);
            default -> stored == null
                ? grouped.aggregate(first, add, subtract) : grouped.aggregate(first, add, subtract, stored);
        };
    }
}
