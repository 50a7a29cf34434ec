import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;

/** An application with every kind of store that Millstream takes over; it reads PREFIX-in and PREFIX-users. */
public class Moved {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], prefix = arguments[1];
        Serde<String> text = Serdes.String();
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("application.id", prefix + "-java");
        settings.put("auto.offset.reset", "earliest");
        settings.put("commit.interval.ms", "100");
        settings.put("processing.guarantee", arguments[3]);
        settings.put("state.dir", arguments[2]);
        settings.put("session.timeout.ms", "6000"); // a closed application stays in its group for that long
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream(prefix + "-in", Consumed.with(text, text));
        lines.groupByKey(Grouped.with(text, text)).count(Materialized.as("counts"))
            .toStream().to(prefix + "-counts", Produced.with(text, Serdes.Long()));
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("by-word", text, text))
            .count(Materialized.as("word-store"))
            .toStream().to(prefix + "-words", Produced.with(text, Serdes.Long()));
        lines.groupByKey(Grouped.with(text, text))
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofHours(1)))
            .count(Materialized.as("per-minute"));
        lines.groupByKey(Grouped.with(text, text))
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMinutes(2), Duration.ofHours(1)))
            .count(Materialized.as("sessions"));
        lines.groupByKey(Grouped.with(text, text))
            .reduce((first, second) -> second, Materialized.<String, String, org.apache.kafka.streams.state.KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>>as("last").withValueSerde(text));
        KTable<String, String> users = builder.table(prefix + "-users", Consumed.with(text, text));
        lines.join(users, (line, user) -> user + ": " + line, Joined.with(text, text, text))
            .to(prefix + "-joined", Produced.with(text, text));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
        Thread.currentThread().join();
    }
}
