import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.kstream.Window;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.kstream.internals.UnlimitedWindow;

/**
 * Serdes of text, numbers and windowed keys. Text keys are their own bytes, so that stores sort them as text; windowed
 * keys are sorted as those of Kafka Streams: by key, then start, sessions by key, end and start.
 */
public final class AnySerde {
    private static final byte WINDOWED = (byte) 0xF8;

    private AnySerde() {}

    public static final class Keys implements Serde<Object> {
        @Override
        public Serializer<Object> serializer() {
            return (topic, key) -> encodeKey(key);
        }

        @Override
        public Deserializer<Object> deserializer() {
            return (topic, data) -> decodeKey(data);
        }
    }

    public static final class Values implements Serde<Object> {
        @Override
        public Serializer<Object> serializer() {
            return (topic, value) ->
                value == null ? null : ((value instanceof Long ? "n" : "s") + value).getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public Deserializer<Object> deserializer() {
            return (topic, data) -> data == null ? null : decodeValue(new String(data, StandardCharsets.UTF_8));
        }
    }

    private static Object decodeValue(String text) {
        return text.charAt(0) == 'n' ? (Object) Long.valueOf(text.substring(1)) : text.substring(1);
    }

    private static byte[] encodeKey(Object key) {
        if (key == null) {
            return null;
        }
        if (!(key instanceof Windowed<?> windowed)) {
            return key.toString().getBytes(StandardCharsets.UTF_8);
        }
        byte[] inner = encodeKey(windowed.key());
        Window window = windowed.window();
        byte kind = (byte) (window instanceof SessionWindow ? 1 : window instanceof UnlimitedWindow ? 2 : 0);
        long first = kind == 1 ? window.end() : window.start();
        long second = kind == 1 ? window.start() : window.end();
        return ByteBuffer.allocate(17 + inner.length).put(inner).putLong(first).putLong(second)
            .put((byte) (WINDOWED + kind)).array();
    }

    private static Object decodeKey(byte[] data) {
        if (data == null) {
            return null;
        }
        int kind = data.length == 0 ? -1 : data[data.length - 1] - WINDOWED;
        if (kind < 0 || kind > 2) {
            return new String(data, StandardCharsets.UTF_8);
        }
        byte[] inner = Arrays.copyOf(data, data.length - 17);
        ByteBuffer buffer = ByteBuffer.wrap(data, inner.length, 16);
        long first = buffer.getLong();
        long second = buffer.getLong();
        Window window = kind == 1 ? new SessionWindow(second, first)
            : kind == 2 ? new UnlimitedWindow(first) : new TimeWindow(first, second);
        return new Windowed<>(decodeKey(inner), window);
    }
}
