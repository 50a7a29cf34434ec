import java.time.Duration;
import java.util.Base64;
import java.util.Properties;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindowedDeserializer;
import org.apache.kafka.streams.kstream.SessionWindowedSerializer;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindowedDeserializer;
import org.apache.kafka.streams.kstream.TimeWindowedSerializer;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;

/** Windowed keys as the Java library reads and writes them. */
public class WindowedKeys {
    static final long SIZE = 60_000;

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "encode" -> encode(arguments);
            case "decode" -> decode(arguments);
            case "count" -> count(arguments[1], arguments[2], arguments[3].equals("session"), arguments[4]);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    /** Print "key start end" triples as the serializers write them: the time window, then the session. */
    static void encode(String[] arguments) {
        Serializer<Windowed<String>> times = new TimeWindowedSerializer<>(new StringSerializer());
        Serializer<Windowed<String>> sessions = new SessionWindowedSerializer<>(new StringSerializer());
        for (int i = 1; i < arguments.length; i += 3) {
            long start = Long.parseLong(arguments[i + 1]);
            long end = Long.parseLong(arguments[i + 2]);
            print(times.serialize("t", new Windowed<>(arguments[i], new TimeWindow(start, end))));
            print(sessions.serialize("t", new Windowed<>(arguments[i], new SessionWindow(start, end))));
        }
    }

    static void print(byte[] data) {
        System.out.println(Base64.getEncoder().encodeToString(data));
    }

    /** Print what the deserializers read: each time window, then the session after it. */
    static void decode(String[] arguments) {
        Deserializer<Windowed<String>> times = new TimeWindowedDeserializer<>(new StringDeserializer(), SIZE);
        Deserializer<Windowed<String>> sessions = new SessionWindowedDeserializer<>(new StringDeserializer());
        for (int i = 1; i < arguments.length; i++) {
            byte[] data = Base64.getDecoder().decode(arguments[i]);
            Windowed<String> key = (i % 2 == 1 ? times : sessions).deserialize("t", data);
            System.out.println(key.key() + " " + key.window().start() + " " + key.window().end());
        }
    }

    /** Count PREFIX-in by windows into PREFIX-java, and join these counts with the windowed keys of PREFIX-ours. */
    static void count(String bootstrap, String prefix, boolean bySession, String directory) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("application.id", prefix + "-java");
        settings.put("auto.offset.reset", "earliest");
        settings.put("commit.interval.ms", "100");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("state.dir", directory);
        settings.put("consumer.isolation.level", "read_committed");
        StreamsBuilder builder = new StreamsBuilder();
        KGroupedStream<String, String> grouped = builder
            .stream(prefix + "-in", Consumed.with(Serdes.String(), Serdes.String()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()));
        KTable<Windowed<String>, Long> counts = bySession
            ? grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(1), Duration.ofHours(1))).count()
            : grouped.windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(SIZE), Duration.ofHours(1))).count();
        Serde<Windowed<String>> keys = bySession
            ? WindowedSerdes.sessionWindowedSerdeFrom(String.class)
            : WindowedSerdes.timeWindowedSerdeFrom(String.class, SIZE);
        counts.toStream().to(prefix + "-java", Produced.with(keys, Serdes.Long()));
        builder.stream(prefix + "-ours", Consumed.with(keys, Serdes.Long()))
            .join(counts, (key, ours, java) -> key.key() + "@" + key.window().start() + ":" + ours + "=" + java)
            .to(prefix + "-joined", Produced.with(keys, Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
        streams.start();
        Thread.currentThread().join();
    }
}
