import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.formats.json.JsonDeserializationSchema;
import org.apache.flink.formats.json.JsonSerializationSchema;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.annotation.JsonProperty;
import org.apache.flink.streaming.api.TimeDomain;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Rides per zone and minute with Flink's DataStream API in an embedded MiniCluster. Arguments: bootstrap servers, group,
 * input, output, directory, milliseconds between checkpoints, guarantee, milliseconds between updates (0: every update),
 * milliseconds of buffering between tasks.
 */
public class FlinkZoneCounts {
    static final long MINUTE = 60_000, GRACE = 60_000;

    public static class Ride {
        @JsonProperty("ride_id") public String rideId;
        @JsonProperty("vendor_id") public int vendorId;
        public int zone;
        public double amount;
        public long pickup;
    }

    public static class Count {
        public int zone;
        public long start;
        public long count;

        public Count() {}

        Count(int zone, long start, long count) {
            this.zone = zone;
            this.start = start;
            this.count = count;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("execution.checkpointing.interval", arguments[5] + " ms");
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", "file://" + arguments[4] + "/checkpoints");
        settings.setString("state.backend.type", "hashmap"); // the fastest: state in memory, checkpoints on disk
        settings.setString("execution.buffer-timeout.interval", arguments[8] + " ms");
        settings.setString("pipeline.object-reuse", "true");
        settings.setString("restart-strategy.type", "none");
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(2, settings);

        KafkaSource<Ride> source = KafkaSource.<Ride>builder()
            .setBootstrapServers(arguments[0])
            .setGroupId(arguments[1])
            .setTopics(arguments[2])
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setValueOnlyDeserializer(new JsonDeserializationSchema<>(Ride.class))
            .build();
        KafkaSink<Count> sink = KafkaSink.<Count>builder()
            .setBootstrapServers(arguments[0])
            .setDeliveryGuarantee(DeliveryGuarantee.valueOf(arguments[6]))
            .setTransactionalIdPrefix(arguments[1])
            .setTransactionNamingStrategy(TransactionNamingStrategy.POOLING)
            .setProperty("transaction.timeout.ms", "600000") // the default of an hour is more than a broker allows
            .setRecordSerializer(KafkaRecordSerializationSchema.<Count>builder()
                .setTopic(arguments[3])
                .setKeySerializationSchema((Count count) -> Integer.toString(count.zone).getBytes())
                .setValueSerializationSchema(new JsonSerializationSchema<>())
                .build())
            .build();

        long pause = Long.parseLong(arguments[7]);
        environment.fromSource(source, WatermarkStrategy.forMonotonousTimestamps(), "rides")
            .filter(ride -> ride.amount > 1.0)
            .keyBy(ride -> ride.zone)
            .process(pause == 0 ? new EveryUpdate() : new Merged(pause))
            .sinkTo(sink);
        environment.execute();
    }

    /** Counts by minute; emits each update at once. */
    static class EveryUpdate extends KeyedProcessFunction<Integer, Ride, Count> {
        transient MapState<Long, Long> counts;

        @Override
        public void open(OpenContext context) {
            counts = getRuntimeContext().getMapState(new MapStateDescriptor<>("counts", Long.class, Long.class));
        }

        @Override
        public void processElement(Ride ride, Context context, Collector<Count> out) throws Exception {
            long start = context.timestamp() - context.timestamp() % MINUTE;
            if (start + MINUTE + GRACE <= context.timerService().currentWatermark()) {
                return; // late
            }
            Long before = counts.get(start);
            if (before == null) {
                context.timerService().registerEventTimeTimer(start + MINUTE + GRACE);
            }
            long count = before == null ? 1 : before + 1;
            counts.put(start, count);
            counted(start, count, context, out);
        }

        void counted(long start, long count, Context context, Collector<Count> out) throws Exception {
            out.collect(new Count(context.getCurrentKey(), start, count));
        }

        @Override
        public void onTimer(long timestamp, OnTimerContext context, Collector<Count> out) throws Exception {
            counts.remove(timestamp - MINUTE - GRACE);
        }
    }

    /** Counts by minute; emits the last count of each a few times per second. */
    static class Merged extends EveryUpdate {
        final long pause;
        transient MapState<Long, Boolean> changed;

        Merged(long pause) {
            this.pause = pause;
        }

        @Override
        public void open(OpenContext context) {
            super.open(context);
            changed = getRuntimeContext().getMapState(new MapStateDescriptor<>("changed", Long.class, Boolean.class));
        }

        @Override
        void counted(long start, long count, Context context, Collector<Count> out) throws Exception {
            if (!changed.contains(start)) {
                changed.put(start, true);
                long now = context.timerService().currentProcessingTime();
                context.timerService().registerProcessingTimeTimer((now / pause + 1) * pause);
            }
        }

        @Override
        public void onTimer(long timestamp, OnTimerContext context, Collector<Count> out) throws Exception {
            if (context.timeDomain() == TimeDomain.PROCESSING_TIME) {
                for (long start : changed.keys()) {
                    out.collect(new Count(context.getCurrentKey(), start, counts.get(start)));
                }
                changed.clear();
            } else {
                long start = timestamp - MINUTE - GRACE;
                if (changed.contains(start)) {
                    out.collect(new Count(context.getCurrentKey(), start, counts.get(start)));
                    changed.remove(start);
                }
                super.onTimer(timestamp, context, out);
            }
        }
    }
}
