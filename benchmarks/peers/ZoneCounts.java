import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/** Rides per zone with Kafka Streams: bootstrap servers, application id, input, output, bytes of cache, state directory. */
public class ZoneCounts {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("statestore.cache.max.bytes", arguments[4]);
        settings.put("state.dir", arguments[5]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("num.stream.threads", "2");
        settings.put("auto.offset.reset", "earliest");
        settings.put("replication.factor", "1");

        Serde<JsonNode> json = Serdes.serdeFrom(ZoneCounts::encode, ZoneCounts::decode);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[2], Consumed.with(Serdes.ByteArray(), json))
            .filter((key, ride) -> ride.get("amount").asDouble() > 1.0)
            .groupBy((key, ride) -> ride.get("zone").asText(), Grouped.with(Serdes.String(), json))
            .count()
            .toStream()
            .map((zone, count) -> KeyValue.pair(zone, Long.toString(count)))
            .to(arguments[3], Produced.with(Serdes.String(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
        streams.start();
        Thread.currentThread().join();
    }

    static byte[] encode(String topic, JsonNode value) {
        try {
            return value == null ? null : JSON.writeValueAsBytes(value);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static JsonNode decode(String topic, byte[] data) {
        try {
            return data == null ? null : JSON.readTree(data);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
