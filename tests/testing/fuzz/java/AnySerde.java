import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.kstream.Window;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.kstream.internals.UnlimitedWindow;

/** Serdes of text, numbers and windowed keys. Text keys are their own bytes, so that stores sort them as text. */
public final class AnySerde {
    private static final byte WINDOWED = (byte) 0xFF;

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
        return ByteBuffer.allocate(18 + inner.length).put(WINDOWED).put(kind).putLong(window.start())
            .putLong(window.end()).put(inner).array();
    }

    private static Object decodeKey(byte[] data) {
        if (data == null) {
            return null;
        }
        if (data.length == 0 || data[0] != WINDOWED) {
            return new String(data, StandardCharsets.UTF_8);
        }
        ByteBuffer buffer = ByteBuffer.wrap(data, 1, data.length - 1);
        byte kind = buffer.get();
        long start = buffer.getLong();
        long end = buffer.getLong();
        byte[] inner = new byte[buffer.remaining()];
        buffer.get(inner);
        Window window = kind == 1 ? new SessionWindow(start, end)
            : kind == 2 ? new UnlimitedWindow(start) : new TimeWindow(start, end);
        return new Windowed<>(decodeKey(inner), window);
    }
}
