import com.fasterxml.jackson.annotation.JsonProperty;
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
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * Rides per zone and minute with Kafka Streams, all settings but those named here at their defaults. Arguments: bootstrap
 * servers, application id, input, output, bytes of cache ("-": the default), state directory.
 */
public class ZoneCounts {
    static final ObjectMapper JSON = new ObjectMapper();

    public static class Ride {
        @JsonProperty("ride_id") public String rideId;
        @JsonProperty("vendor_id") public int vendorId;
        public int zone;
        public double amount;
        public long pickup;
    }

    record Count(int zone, long start, long count) {}

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        if (!arguments[4].equals("-")) {
            settings.put("statestore.cache.max.bytes", arguments[4]);
        }
        settings.put("state.dir", arguments[5]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("num.stream.threads", "2");
        settings.put("auto.offset.reset", "earliest");

        Serde<Ride> ride = json(Ride.class);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[2], Consumed.with(Serdes.ByteArray(), ride))
            .filter((key, value) -> value.amount > 1.0)
            .groupBy((key, value) -> value.zone, Grouped.with(Serdes.Integer(), ride))
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofMinutes(1)))
            .count()
            .toStream()
            .map((window, count) -> KeyValue.pair(
                window.key(), new Count(window.key(), window.window().start(), count)))
            .to(arguments[3], Produced.with(Serdes.Integer(), json(Count.class)));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
        streams.start();
        Thread.currentThread().join();
    }

    static <T> Serde<T> json(Class<T> type) {
        return Serdes.serdeFrom((topic, value) -> encode(value), (topic, data) -> decode(data, type));
    }

    static byte[] encode(Object value) {
        try {
            return value == null ? null : JSON.writeValueAsBytes(value);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static <T> T decode(byte[] data, Class<T> type) {
        try {
            return data == null ? null : JSON.readValue(data, type);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
