import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.DriverAccess;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.errors.LogAndContinueExceptionHandler;
import org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.test.TestRecord;

/** Reads cases from standard input, one JSON object per line, and prints what Kafka Streams answers. */
public class Oracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // for what the library prints
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode given = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            answer.put("id", given.get("id").asText());
            answer.set("expect", answer(given));
            answers.println(answer);
            answers.flush();
        }
    }

    private static Properties settings(Path directory, JsonNode config) {
        Properties settings = new Properties();
        settings.put("application.id", "oracle");
        settings.put("bootstrap.servers", "none:1");
        settings.put("default.key.serde", AnySerde.Keys.class.getName());
        settings.put("default.value.serde", AnySerde.Values.class.getName());
        settings.put("statestore.cache.max.bytes", config.path("cache").asBoolean() ? "100000000" : "0");
        settings.put("state.dir", directory.toString());
        settings.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
        settings.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        if (config.path("deserialization_handler").asText().equals("continue")) {
            settings.put("deserialization.exception.handler", LogAndContinueExceptionHandler.class.getName());
        }
        if (config.path("processing_handler").asText().equals("continue")) {
            settings.put("processing.exception.handler", LogAndContinueProcessingExceptionHandler.class.getName());
        }
        if (config.has("dead_letter_topic")) {
            settings.put("errors.dead.letter.queue.topic.name", config.get("dead_letter_topic").asText());
        }
        return settings;
    }

    private static ObjectNode answer(JsonNode given) throws IOException {
        ObjectNode expect = JSON.createObjectNode();
        ArrayNode steps = expect.putArray("steps");
        JsonNode config = given.path("config");
        boolean headers = given.path("headers").asBoolean();
        String phase = "build";
        int number = -1;
        TopologyTestDriver driver = null;
        Path directory = Files.createTempDirectory("oracle"); // a failed case keeps its locks
        try {
            Builder built = new Builder(given.get("topology"), !config.path("commits").asBoolean());
            var topology = built.builder.build();
            phase = "start";
            driver = new TopologyTestDriver(topology, settings(directory, config), Instant.ofEpochMilli(0));
            if (given.has("lots")) {
                new DriverAccess(driver).drawLots(given.get("lots").asLong());
            }
            phase = "step";
            for (JsonNode step : given.get("steps")) {
                number++;
                run(step, driver, config.path("cache").asBoolean());
                if (config.path("commits").asBoolean()) {
                    new DriverAccess(driver).commit();
                }
                steps.add(records(driver, headers));
            }
            if (config.path("cache").asBoolean()) {
                new DriverAccess(driver).commit();
                steps.add(records(driver, headers));
            }
            expect.set("stores", stores(given, driver));
            expect.put("dropped", dropped(driver));
            ArrayNode queries = expect.putArray("queries");
            for (JsonNode query : given.path("queries")) {
                queries.add(Queries.ask(query, driver));
            }
        } catch (Throwable error) {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            ObjectNode problem = expect.putObject("error");
            problem.put("phase", phase);
            problem.put("class", cause.getClass().getName());
            problem.put("message", String.valueOf(cause.getMessage()));
            if (phase.equals("step")) {
                problem.put("step", number);
                expect.set("failing_step", failing(driver, headers));
            }
        } finally {
            try {
                if (driver != null) {
                    driver.close();
                }
            } catch (RuntimeException ignored) {
                // the error that ended the case is the answer
            }
            Utils.delete(directory.toFile());
        }
        return expect;
    }

    private static ArrayNode failing(TopologyTestDriver driver, boolean headers) {
        try {
            new DriverAccess(driver).capture();
            return records(driver, headers);
        } catch (RuntimeException ignored) {
            return JSON.createArrayNode();
        }
    }

    private static void run(JsonNode step, TopologyTestDriver driver, boolean cache) {
        DriverAccess access = new DriverAccess(driver);
        if (!step.has("pipe")) {
            long milliseconds = step.get("advance_wall_clock_ms").asLong();
            if (cache) {
                access.advance(milliseconds);
            } else {
                driver.advanceWallClockTime(Duration.ofMillis(milliseconds));
            }
            return;
        }
        JsonNode pipe = step.get("pipe");
        String topic = pipe.get(0).asText();
        Headers headers = new RecordHeaders();
        for (JsonNode header : pipe.path(4)) {
            headers.add(header.get(0).asText(), header.get(1).asText().getBytes(StandardCharsets.UTF_8));
        }
        var keys = new AnySerde.Keys().serializer();
        var values = new AnySerde.Values().serializer();
        if (cache) {
            access.pipe(topic, keys.serialize(topic, text(pipe.get(1))), values.serialize(topic, text(pipe.get(2))),
                pipe.get(3).asLong(), headers);
            return;
        }
        driver.createInputTopic(topic, keys, values)
            .pipeInput(new TestRecord<>(text(pipe.get(1)), text(pipe.get(2)), headers, pipe.get(3).asLong()));
    }

    private static Object text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }

    private static ArrayNode records(TopologyTestDriver driver, boolean headers) {
        ArrayNode all = JSON.createArrayNode();
        for (String name : driver.producedTopicNames().stream().sorted().toList()) {
            var topic = driver.createOutputTopic(name, new AnySerde.Keys().deserializer(), new AnySerde.Values().deserializer());
            if (name.startsWith("oracle-")) {
                continue;
            }
            for (TestRecord<Object, Object> record : topic.readRecordsToList()) {
                ArrayNode row = all.addArray();
                row.add(name);
                row.add(key(record.key()));
                row.add(value(record.value()));
                row.add(record.timestamp());
                if (headers) {
                    ArrayNode pairs = row.addArray();
                    Header origin = record.headers().lastHeader("__streams.errors.topic");
                    boolean internal = origin != null && "*".equals(text(origin, false));
                    record.headers().forEach(header -> pairs.addArray().add(header.key()).add(text(header, internal)));
                }
            }
        }
        return all;
    }

    /** The text of a header; details of exceptions, names of internal topics and offsets in them are not compared. */
    private static String text(Header header, boolean internal) {
        String name = header.key();
        String text = header.value() == null ? null : new String(header.value(), StandardCharsets.UTF_8);
        boolean varies = name.startsWith("__streams.errors.")
            && (List.of("exception", "message", "stacktrace").contains(name.substring(17))
                || internal && name.endsWith(".offset")
                || text != null && text.startsWith("oracle-"));
        return varies ? "*" : text;
    }

    static JsonNode key(Object key) {
        if (key instanceof Windowed<?> windowed) {
            ObjectNode node = JSON.createObjectNode();
            node.set("key", key(windowed.key()));
            node.put("start", windowed.window().start());
            node.put("end", windowed.window().end());
            return node;
        }
        return value(key);
    }

    static JsonNode value(Object value) {
        if (value instanceof Long number) {
            return JSON.getNodeFactory().numberNode(number);
        }
        return value == null ? JSON.nullNode() : JSON.getNodeFactory().textNode(value.toString());
    }

    private static long dropped(TopologyTestDriver driver) {
        double total = 0;
        for (var entry : driver.metrics().entrySet()) {
            if (entry.getKey().name().equals("dropped-records-total")) {
                total += ((Number) entry.getValue().metricValue()).doubleValue();
            }
        }
        return (long) total;
    }

    private static ObjectNode stores(JsonNode given, TopologyTestDriver driver) {
        Map<String, StateStore> named = new TreeMap<>();
        for (JsonNode node : given.get("topology")) {
            List<String> names = new ArrayList<>();
            if (node.has("store")) {
                names.add(node.get("store").asText());
            } else if (node.has("versioned_history_ms")) {
                names.add("versioned-" + node.get("id").asText());
            }
            if (node.has("stores")) {
                node.get("stores").forEach(name -> names.add(name.asText()));
            }
            names.forEach(name -> named.put(name, driver.getAllStateStores().get(name)));
        }
        ObjectNode all = JSON.createObjectNode();
        named.forEach((name, store) -> all.set(name, content(given, store)));
        return all;
    }

    @SuppressWarnings("unchecked")
    private static ObjectNode content(JsonNode given, StateStore store) {
        ObjectNode node = JSON.createObjectNode();
        ArrayNode entries = JSON.createArrayNode();
        if (store instanceof VersionedKeyValueStore<?, ?>) {
            node.put("type", "versioned");
            node.set("entries", versions(given, (VersionedKeyValueStore<Object, Object>) store));
            return node;
        }
        if (store instanceof ReadOnlyKeyValueStore<?, ?>) {
            node.put("type", "key_value");
            add(((ReadOnlyKeyValueStore<Object, Object>) store).all(), entries);
        } else if (store instanceof SessionStore<?, ?>) {
            node.put("type", "session");
            add((KeyValueIterator) ((SessionStore<Object, Object>) store).fetch(null, null), entries);
        } else {
            node.put("type", "window");
            add((KeyValueIterator) ((ReadOnlyWindowStore<Object, Object>) store).all(), entries);
        }
        node.set("entries", entries);
        return node;
    }

    /** The versions that look-ups find, for all keys and timestamps of the steps. */
    private static ArrayNode versions(JsonNode given, VersionedKeyValueStore<Object, Object> store) {
        Map<String, Object> keys = new TreeMap<>();
        Set<Long> times = new TreeSet<>();
        for (JsonNode step : given.get("steps")) {
            if (step.has("pipe")) {
                Object key = text(step.get("pipe").get(1));
                if (key != null) {
                    keys.put((String) key, key);
                }
                times.add(step.get("pipe").get(3).asLong());
            }
        }
        given.path("keys").forEach(key -> keys.put(key.asText(), key.asText()));
        ArrayNode rows = JSON.createArrayNode();
        for (Object key : keys.values()) {
            VersionedRecord<Object> latest = store.get(key);
            Map<Long, VersionedRecord<Object>> found = new TreeMap<>();
            if (latest != null) {
                found.put(latest.timestamp(), latest);
            }
            for (long time : times) {
                VersionedRecord<Object> version = store.get(key, time);
                if (version != null) {
                    found.put(version.timestamp(), version);
                }
            }
            found.values().forEach(version -> rows.addArray().add((String) key).add(value(version.value()))
                .add(version.timestamp()).add(latest != null && latest.timestamp() == version.timestamp()));
        }
        return rows;
    }

    private static void add(KeyValueIterator<Object, Object> iterator, ArrayNode entries) {
        List<ArrayNode> rows = new ArrayList<>();
        try (iterator) {
            while (iterator.hasNext()) {
                KeyValue<Object, Object> entry = iterator.next();
                ArrayNode row = JSON.createArrayNode();
                row.add(key(entry.key));
                if (entry.value instanceof ValueAndTimestamp<?> both) {
                    row.add(value(both.value()));
                    row.add(both.timestamp());
                } else {
                    row.add(value(entry.value));
                }
                rows.add(row);
            }
        }
        rows.sort(Comparator.comparing((ArrayNode row) -> row.get(0).isObject() ? row.get(0).get("key").asText() : row.get(0).asText())
            .thenComparing(row -> row.get(0).isObject() ? row.get(0).get("start").asLong() : 0)
            .thenComparing(row -> row.get(0).isObject() ? row.get(0).get("end").asLong() : 0));
        rows.forEach(entries::add);
    }
}
