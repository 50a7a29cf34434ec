import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.function.Function;
import org.apache.kafka.streams.kstream.*;

/** Joins of all kinds. */
@SuppressWarnings("unchecked")
final class Joins {
    private Joins() {}

    static Object build(JsonNode node, Object left, Object right) {
        String joiner = node.get("joiner").asText();
        String op = node.get("op").asText();
        if (left instanceof KStream<?, ?>) {
            KStream<Object, Object> stream = (KStream<Object, Object>) left;
            ValueJoinerWithKey<Object, Object, Object, Object> join = (k, l, r) -> Functions.join(joiner, k, l, r);
            if (right instanceof KStream<?, ?>) {
                return streams(node, op, stream, (KStream<Object, Object>) right, join);
            }
            if (right instanceof GlobalKTable<?, ?>) {
                KeyValueMapper<Object, Object, Object> key = (k, v) -> Functions.map(node.get("key").asText(), k, v);
                GlobalKTable<Object, Object> table = (GlobalKTable<Object, Object>) right;
                return op.equals("join") ? stream.join(table, key, join) : stream.leftJoin(table, key, join);
            }
            KTable<Object, Object> table = (KTable<Object, Object>) right;
            if (node.has("grace_ms")) {
                var joined = Joined.<Object, Object, Object>with(null, null, null)
                    .withGracePeriod(Duration.ofMillis(node.get("grace_ms").asLong()));
                return op.equals("join") ? stream.join(table, join, joined) : stream.leftJoin(table, join, joined);
            }
            return op.equals("join") ? stream.join(table, join) : stream.leftJoin(table, join);
        }
        ValueJoiner<Object, Object, Object> join = (l, r) -> Functions.join(joiner, null, l, r);
        KTable<Object, Object> table = (KTable<Object, Object>) left;
        KTable<Object, Object> other = (KTable<Object, Object>) right;
        var stored = Builder.stored(node);
        if (node.has("foreign_key")) {
            String foreignKey = node.get("foreign_key").asText();
            java.util.function.BiFunction<Object, Object, Object> key = (k, v) -> Functions.map(foreignKey, k, v);
            if (op.equals("outer_join")) {
                throw new UnsupportedOperationException("no operation outer_join with foreign_key");
            }
            if (stored == null) {
                return op.equals("join") ? table.join(other, key, join) : table.leftJoin(other, key, join);
            }
            return op.equals("join") ? table.join(other, key, join, stored) : table.leftJoin(other, key, join, stored);
        }
        if (stored == null) {
            return switch (op) {
                case "join" -> table.join(other, join);
                case "left_join" -> table.leftJoin(other, join);
                default -> table.outerJoin(other, join);
            };
        }
        return switch (op) {
            case "join" -> table.join(other, join, stored);
            case "left_join" -> table.leftJoin(other, join, stored);
            default -> table.outerJoin(other, join, stored);
        };
    }

    private static Object streams(JsonNode node, String op, KStream<Object, Object> left, KStream<Object, Object> right,
            ValueJoinerWithKey<Object, Object, Object, Object> join) {
        Duration before = Duration.ofMillis(node.get("before_ms").asLong());
        Duration after = Duration.ofMillis(node.get("after_ms").asLong());
        JoinWindows windows =
            JoinWindows.ofTimeDifferenceAndGrace(Duration.ZERO, Duration.ofMillis(node.get("grace_ms").asLong()));
        windows = before.isNegative() ? windows.after(after).before(before) : windows.before(before).after(after);
        return switch (op) {
            case "join" -> left.join(right, join, windows);
            case "left_join" -> left.leftJoin(right, join, windows);
            default -> left.outerJoin(right, join, windows);
        };
    }
}
