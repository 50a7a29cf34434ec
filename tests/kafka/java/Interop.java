import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/** What the Java clients do, for comparison: hash, produce, or join two topics with Kafka Streams. */
public class Interop {
    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "murmur2" -> murmur2(arguments);
            case "produce" -> produce(arguments[1], arguments[2], Integer.parseInt(arguments[3]));
            case "join" -> join(arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    /** Print the hash of each key that is given in base64. */
    static void murmur2(String[] keys) {
        for (int i = 1; i < keys.length; i++) {
            System.out.println(Utils.murmur2(Base64.getDecoder().decode(keys[i])));
        }
    }

    /** Send records with keys k0, k1, ...; the default partitioner chooses. */
    static void produce(String bootstrap, String topic, int count) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < count; i++) {
                ProducerRecord<String, String> record =
                    new ProducerRecord<>(topic, null, 1000L + i, "k" + i, "\"v" + i + "\"");
                record.headers().add("number", Integer.toString(i).getBytes(StandardCharsets.UTF_8));
                System.out.println(producer.send(record).get().partition());
            }
        }
    }

    /** Join a stream with a table until stopped; both must be partitioned alike. */
    static void join(String bootstrap, String id, String stream, String table, String out) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("application.id", id);
        settings.put("auto.offset.reset", "earliest");
        settings.put("commit.interval.ms", "100");
        settings.put("state.dir", System.getProperty("java.io.tmpdir") + "/" + id);
        settings.put("consumer.isolation.level", "read_committed");
        StreamsBuilder builder = new StreamsBuilder();
        Consumed<String, String> strings = Consumed.with(Serdes.String(), Serdes.String());
        builder.stream(stream, strings)
            .join(builder.table(table, strings), (left, right) -> left + "+" + right)
            .to(out, Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(5))));
        streams.start();
        Thread.currentThread().join();
    }
}
