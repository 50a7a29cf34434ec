import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;

/** The processors and transformers that cases refer to by name. */
final class Processors {
    private Processors() {}

    static Object plain(Object stored) {
        return stored instanceof ValueAndTimestamp<?> both ? both.value() : stored;
    }

    static Processor<Object, Object, Object, Object> create(String reference, List<String> stores, String global) {
        String[] parts = reference.split(":");
        return new ContextualProcessor<>() {
            private KeyValueStore<Object, Object> a;
            private KeyValueStore<Object, Object> b;
            private long fires;
            private Cancellable schedule;

            @Override
            public void init(ProcessorContext<Object, Object> context) {
                super.init(context);
                a = stores.isEmpty() ? null : context.getStateStore(stores.get(0));
                b = stores.size() < 2 ? null : context.getStateStore(stores.get(1));
                switch (parts[0]) {
                    case "count_and_punctuate_stream_time" -> counts(PunctuationType.STREAM_TIME);
                    case "count_and_punctuate_wall_clock" -> counts(PunctuationType.WALL_CLOCK_TIME);
                    case "ticks" -> schedule = context.schedule(millis(parts[2]), kind(parts[1]), now -> {
                        tick(now);
                        if (fires == Long.parseLong(parts[3])) {
                            schedule.cancel();
                        }
                    });
                    case "fail_on_punctuate" -> context.schedule(millis(parts[2]), kind(parts[1]), now -> {
                        if (fires % 2 == 1) {
                            fires++;
                            throw new IllegalStateException("every second time");
                        }
                        tick(now);
                    });
                    case "anchored_ticks" -> context.schedule(java.time.Instant.ofEpochMilli(Long.parseLong(parts[2])),
                        millis(parts[3]), kind(parts[1]), this::tick);
                    default -> { }
                }
            }

            private void counts(PunctuationType kind) {
                context().schedule(millis(parts[1]), kind, now -> {
                    List<KeyValue<Object, Object>> all = new ArrayList<>();
                    try (KeyValueIterator<Object, Object> entries = a.all()) {
                        entries.forEachRemaining(all::add);
                    }
                    for (KeyValue<Object, Object> entry : all) {
                        context().forward(new Record<>(entry.key, entry.value, now));
                    }
                });
            }

            private void tick(long now) {
                fires++;
                context().forward(new Record<>("tick", fires, now));
            }

            /** Whether this is a processor whose schedule records start and stop. */
            private boolean scheduled(Object v) {
                if (!parts[0].equals("switchable_ticks")) {
                    return false;
                }
                if (Functions.text(v).contains("start") && schedule == null) {
                    schedule = context().schedule(millis(parts[2]), kind(parts[1]), this::tick);
                } else if (Functions.text(v).contains("stop") && schedule != null) {
                    schedule.cancel();
                    schedule = null;
                }
                return true;
            }

            @Override
            public void process(Record<Object, Object> record) {
                Object k = record.key();
                Object v = record.value();
                if (parts[0].equals("shift_timestamp")) {
                    context().forward(record.withTimestamp(Math.max(0, record.timestamp() + Long.parseLong(parts[1]))));
                    return;
                }
                if (Headed.process(parts[0], reference, record, context()) || scheduled(v)) {
                    return;
                }
                KeyValueStore<Object, Object> all = global.isEmpty() ? null : context().getStateStore(global);
                if (parts[0].equals("global_all")) {
                    StringBuilder text = new StringBuilder(Functions.text(v));
                    try (KeyValueIterator<Object, Object> entries = all.all()) {
                        entries.forEachRemaining(entry ->
                            text.append(',').append(entry.key).append('=').append(Functions.text(plain(entry.value))));
                    }
                    context().forward(record.withValue(text.toString()));
                    return;
                }
                if (parts[0].equals("global_put")) {
                    all.put(k, v);
                }
                if (k == null) {
                    return;
                }
                switch (parts[0]) {
                    case "global_get" -> context().forward(
                        record.withValue(Functions.text(v) + "+" + Functions.text(plain(all.get(k)))));
                    case "dedupe_within" -> {
                        long now = context().currentStreamTimeMs();
                        Object last = a.get(k);
                        if (last == null || now - (Long) last >= Long.parseLong(parts[1])) {
                            a.put(k, now);
                            context().forward(record);
                        }
                    }
                    case "count_and_punctuate_stream_time", "count_and_punctuate_wall_clock" ->
                        a.put(k, a.get(k) == null ? 1L : (Long) a.get(k) + 1);
                    case "buffer_last_n" -> {
                        String seen = (a.get(k) == null ? "" : a.get(k) + ",") + Functions.text(v);
                        List<String> values = Arrays.asList(seen.split(",", -1));
                        int n = Integer.parseInt(parts[1]);
                        String joined = String.join(",", values.subList(Math.max(0, values.size() - n), values.size()));
                        a.put(k, joined);
                        context().forward(record.withValue(joined));
                    }
                    case "store_put", "store_write" -> a.put(k, v);
                    case "store_get" -> context().forward(
                        record.withValue(Functions.text(v) + "+" + Functions.text(plain(a.get(k)))));
                    case "count_and_last" -> {
                        long c = a.get(k) == null ? 1 : (Long) a.get(k) + 1;
                        Object last = b.get(k);
                        a.put(k, c);
                        b.put(k, v);
                        context().forward(record.withValue(Functions.text(v) + "#" + c + "<" + Functions.text(last)));
                    }
                    case "owner_index" -> {
                        Object old = a.get(k);
                        if (old != null) {
                            b.delete(old);
                        }
                        a.put(k, v);
                        Object before = null;
                        if (v != null) {
                            before = b.get(v);
                            if (before == null) {
                                b.put(v, k);
                            }
                        }
                        context().forward(record.withValue(
                            Functions.text(old) + ">" + Functions.text(v) + "@" + Functions.text(before)));
                    }
                    default -> { }
                }
            }
        };
    }

    private static Duration millis(String text) {
        return Duration.ofMillis(Long.parseLong(text));
    }

    private static PunctuationType kind(String name) {
        return name.equals("stream") ? PunctuationType.STREAM_TIME : PunctuationType.WALL_CLOCK_TIME;
    }

    static FixedKeyProcessor<Object, Object, Object> ofValues(String reference, List<String> stores, String global) {
        return new ContextualFixedKeyProcessor<>() {
            @Override
            public void process(FixedKeyRecord<Object, Object> record) {
                Object k = record.key();
                Object v = record.value();
                if (reference.equals("stamp_time")) {
                    context().forward(record.withValue(
                        Functions.text(v) + "@" + record.timestamp() + "/" + context().currentStreamTimeMs()));
                    return;
                }
                String header = Functions.argument(reference);
                if (reference.startsWith("add_header")) {
                    context().forward(record.withHeaders(Headed.with(record.headers(), header, v)));
                    return;
                }
                if (reference.startsWith("remove_header")) {
                    context().forward(record.withHeaders(Headed.without(record.headers(), header)));
                    return;
                }
                if (k == null) {
                    return;
                }
                if (reference.equals("global_get")) {
                    KeyValueStore<Object, Object> all = context().getStateStore(global);
                    context().forward(record.withValue(Functions.text(v) + "+" + Functions.text(plain(all.get(k)))));
                    return;
                }
                KeyValueStore<Object, Object> a = context().getStateStore(stores.get(0));
                if (reference.equals("number_values")) {
                    long n = a.get(k) == null ? 1 : (Long) a.get(k) + 1;
                    a.put(k, n);
                    context().forward(record.withValue(Functions.text(v) + "#" + n));
                } else {
                    Object last = a.get(k);
                    a.put(k, v);
                    context().forward(record.withValue(Functions.text(v) + "<" + Functions.text(last)));
                }
            }
        };
    }

    static ValueTransformerWithKey<Object, Object, Object> transformer(String reference, List<String> stores) {
        return new ValueTransformerWithKey<>() {
            private KeyValueStore<Object, Object> s;

            @Override
            public void init(org.apache.kafka.streams.processor.ProcessorContext context) {
                s = stores.isEmpty() ? null : (KeyValueStore<Object, Object>) context.getStateStore(stores.get(0));
            }

            @Override
            public Object transform(Object k, Object v) {
                switch (reference) {
                    case "describe":
                        return Functions.text(k) + "=" + Functions.text(v);
                    case "shout":
                        return v == null ? null : Functions.text(v) + "!";
                    case "count_calls":
                        long n = s.get(k) == null ? 1 : (Long) s.get(k) + 1;
                        s.put(k, n);
                        return v == null ? null : Functions.text(v) + "#" + n;
                    case "with_other":
                        return v == null ? null : Functions.text(v) + "/" + Functions.text(plain(s.get(k)));
                    case "remember_max":
                        if (v == null) {
                            return null;
                        }
                        if (s.get(k) == null || Functions.text(v).compareTo((String) s.get(k)) > 0) {
                            s.put(k, Functions.text(v));
                        }
                        return Functions.text(v) + "^" + s.get(k);
                    default:
                        throw new IllegalArgumentException(reference);
                }
            }

            @Override
            public void close() {}
        };
    }
}
