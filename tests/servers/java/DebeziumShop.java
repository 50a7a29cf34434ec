import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import io.debezium.engine.format.KeyValueHeaderChangeEventFormat;
import java.util.Properties;
import java.util.stream.Collectors;

/** Prints the records of Debezium's Postgres connector, a line each: topic, key, value and headers, between tabs. */
public class DebeziumShop {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        for (String setting : arguments) {
            String[] parts = setting.split("=", 2);
            settings.setProperty(parts[0], parts[1]);
        }
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine
            .create(KeyValueHeaderChangeEventFormat.of(Json.class, Json.class, Json.class))
            .using(settings)
            .using((success, message, error) -> System.out.println("ended\t" + message + "\t" + error + "\t"))
            .notifying(DebeziumShop::print)
            .build();
        Thread thread = new Thread(engine);
        thread.start();
        while (System.in.read() >= 0) {}
        engine.close();
        thread.join();
    }

    private static void print(ChangeEvent<String, String> event) {
        String headers = event.headers().stream()
            .map(header -> "\"" + header.getKey() + "\":" + header.getValue())
            .collect(Collectors.joining(",", "{", "}"));
        System.out.println(String.join("\t", event.destination(), event.key(), event.value(), headers));
        System.out.flush();
    }
}
