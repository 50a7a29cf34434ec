import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.time.Instant;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;

/** Asks stores what cases ask after their last step. */
@SuppressWarnings("unchecked")
final class Queries {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Queries() {}

    static JsonNode ask(JsonNode query, TopologyTestDriver driver) {
        StateStore store = driver.getAllStateStores().get(query.get("store").asText());
        if (store instanceof VersionedKeyValueStore<?, ?>) {
            return versioned(query, (VersionedKeyValueStore<Object, Object>) store);
        }
        if (store instanceof ReadOnlyKeyValueStore<?, ?>) {
            return keyValue(query, (ReadOnlyKeyValueStore<Object, Object>) store);
        }
        return store instanceof SessionStore<?, ?>
            ? session(query, (SessionStore<Object, Object>) store)
            : window(query, (ReadOnlyWindowStore<Object, Object>) store);
    }

    private static Object key(JsonNode query, String field) {
        return !query.has(field) || query.get(field).isNull() ? null : query.get(field).asText();
    }

    private static Instant time(JsonNode query, String field) {
        return Instant.ofEpochMilli(query.get(field).asLong());
    }

    private static JsonNode keyValue(JsonNode query, ReadOnlyKeyValueStore<Object, Object> store) {
        return switch (query.get("query").asText()) {
            case "get" -> pair(store.get(key(query, "key")));
            case "range" -> list(store.range(key(query, "from"), key(query, "to")));
            case "reverse_range" -> list(store.reverseRange(key(query, "from"), key(query, "to")));
            case "all" -> list(store.all());
            case "reverse_all" -> list(store.reverseAll());
            default -> list(store.prefixScan(query.get("prefix").asText(), new StringSerializer()));
        };
    }

    private static JsonNode window(JsonNode query, ReadOnlyWindowStore<Object, Object> store) {
        return switch (query.get("query").asText()) {
            case "fetch_one" -> pair(store.fetch(key(query, "key"), query.get("at").asLong()));
            case "fetch" -> list(store.fetch(key(query, "key"), time(query, "from"), time(query, "to")));
            case "backward_fetch" -> list(store.backwardFetch(key(query, "key"), time(query, "from"), time(query, "to")));
            case "fetch_range" -> list(store.fetch(
                key(query, "key_from"), key(query, "key_to"), time(query, "from"), time(query, "to")));
            case "backward_fetch_range" -> list(store.backwardFetch(
                key(query, "key_from"), key(query, "key_to"), time(query, "from"), time(query, "to")));
            case "fetch_all" -> list(store.fetchAll(time(query, "from"), time(query, "to")));
            case "backward_fetch_all" -> list(store.backwardFetchAll(time(query, "from"), time(query, "to")));
            case "all" -> list(store.all());
            default -> list(store.backwardAll());
        };
    }

    private static JsonNode session(JsonNode query, SessionStore<Object, Object> store) {
        return switch (query.get("query").asText()) {
            case "fetch" -> list(store.fetch(key(query, "key")));
            case "backward_fetch" -> list(store.backwardFetch(key(query, "key")));
            case "fetch_range" -> list(store.fetch(key(query, "key_from"), key(query, "key_to")));
            case "backward_fetch_range" -> list(store.backwardFetch(key(query, "key_from"), key(query, "key_to")));
            case "find_sessions" -> list(store.findSessions(
                key(query, "key"), time(query, "earliest_end"), time(query, "latest_start")));
            case "backward_find_sessions" -> list(store.backwardFindSessions(
                key(query, "key"), time(query, "earliest_end"), time(query, "latest_start")));
            case "find_sessions_range" -> list(store.findSessions(
                key(query, "key_from"), key(query, "key_to"), time(query, "earliest_end"), time(query, "latest_start")));
            case "backward_find_sessions_range" -> list(store.backwardFindSessions(
                key(query, "key_from"), key(query, "key_to"), time(query, "earliest_end"), time(query, "latest_start")));
            default -> pair(store.fetchSession(key(query, "key"), time(query, "start"), time(query, "end")));
        };
    }

    private static JsonNode versioned(JsonNode query, VersionedKeyValueStore<Object, Object> store) {
        VersionedRecord<Object> found = query.has("as_of")
            ? store.get(key(query, "key"), query.get("as_of").asLong()) : store.get(key(query, "key"));
        if (found == null) {
            return JSON.nullNode();
        }
        ArrayNode answer = JSON.createArrayNode();
        return answer.add(Oracle.value(found.value())).add(found.timestamp()).addNull();
    }

    private static JsonNode pair(Object stored) {
        if (stored == null) {
            return JSON.nullNode();
        }
        ArrayNode answer = JSON.createArrayNode();
        if (stored instanceof ValueAndTimestamp<?> both) {
            return answer.add(Oracle.value(both.value())).add(both.timestamp());
        }
        return answer.add(Oracle.value(stored));
    }

    private static ArrayNode list(Object iterator) {
        ArrayNode rows = JSON.createArrayNode();
        try (KeyValueIterator<Object, Object> entries = (KeyValueIterator<Object, Object>) iterator) {
            while (entries.hasNext()) {
                KeyValue<Object, Object> entry = entries.next();
                ArrayNode row = rows.addArray();
                row.add(Oracle.key(entry.key));
                pair(entry.value).forEach(row::add);
            }
        }
        return rows;
    }
}
