import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.processor.TimestampExtractor;

/** How cases read topics: by name or pattern, as text or numbers, with computed timestamps. */
final class Sources {
    private static final Pattern DECIMAL = Pattern.compile("-?[0-9]+");

    private Sources() {}

    static KStream<Object, Object> stream(StreamsBuilder builder, JsonNode node) {
        if (node.has("pattern")) {
            return builder.stream(Pattern.compile(node.get("pattern").asText()), consumed(node));
        }
        return builder.stream(topics(node), consumed(node));
    }

    static boolean reads(JsonNode node, String topic) {
        if (node.has("in")) {
            return false;
        }
        return node.has("pattern")
            ? Pattern.matches(node.get("pattern").asText(), topic) : topics(node).contains(topic);
    }

    private static List<String> topics(JsonNode node) {
        List<String> topics = new ArrayList<>();
        if (node.has("topics")) {
            node.get("topics").forEach(topic -> topics.add(topic.asText()));
        } else {
            topics.add(node.get("topic").asText());
        }
        return topics;
    }

    static Consumed<Object, Object> consumed(JsonNode node) {
        boolean numbers = node.has("value_type");
        Consumed<Object, Object> consumed = Consumed.with(null, numbers ? new Numbers() : null);
        return node.has("timestamp") ? consumed.withTimestampExtractor(extractor(node)) : consumed;
    }

    private static TimestampExtractor extractor(JsonNode node) {
        String reference = node.get("timestamp").asText();
        int argument = Integer.parseInt(Functions.argument(reference));
        String invalid = node.has("on_invalid") ? node.get("on_invalid").asText() : "fail";
        return (record, partitionTime) -> {
            long time = Functions.name(reference).equals("record_shift")
                ? record.timestamp() + argument : field(record.value(), argument);
            if (time >= 0 || invalid.equals("skip")) {
                return time;
            }
            if (invalid.equals("partition_time") && partitionTime >= 0) {
                return partitionTime;
            }
            throw new IllegalStateException("invalid timestamp");
        };
    }

    private static long field(Object value, int number) {
        String[] parts = Functions.text(value).split("\\|", -1);
        String part = value != null && number < parts.length ? parts[number] : "";
        return DECIMAL.matcher(part).matches() ? Long.parseLong(part) : -1;
    }

    /** Text that must be a decimal number. */
    static final class Numbers implements Serde<Object> {
        private final AnySerde.Values any = new AnySerde.Values();

        @Override
        public Serializer<Object> serializer() {
            return any.serializer();
        }

        @Override
        public Deserializer<Object> deserializer() {
            return (topic, data) -> {
                Object value = any.deserializer().deserialize(topic, data);
                if (value != null && !DECIMAL.matcher(value.toString()).matches()) {
                    throw new SerializationException(value + " is not a number");
                }
                return value == null ? null : Long.valueOf(value.toString());
            };
        }
    }

    /** Values as text, for topics that the topology reads too. */
    static final class Texts implements Serde<Object> {
        private final AnySerde.Values any = new AnySerde.Values();

        @Override
        public Serializer<Object> serializer() {
            return (topic, value) -> any.serializer().serialize(topic, value == null ? null : Functions.text(value));
        }

        @Override
        public Deserializer<Object> deserializer() {
            return any.deserializer();
        }
    }
}
