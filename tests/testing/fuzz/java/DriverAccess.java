package org.apache.kafka.streams;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Random;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.processor.internals.RecordQueue;
import org.apache.kafka.streams.processor.internals.StreamTask;

/** What the test driver does not offer: records without a commit after each, and lots for equal timestamps. */
public final class DriverAccess {
    private final TopologyTestDriver driver;

    public DriverAccess(TopologyTestDriver driver) {
        this.driver = driver;
    }

    /** Process a record without a commit, so that caches keep what they hold. */
    public void pipe(String topic, byte[] key, byte[] value, long timestamp, Headers headers) {
        TopicPartition global = (TopicPartition) field(Map.class, "globalPartitionsByInputTopic").get(topic);
        if (global != null) {
            call("processGlobalRecord", global, timestamp, key, value, headers);
            return;
        }
        Object partition = call("getInputTopicOrPatternPartition", topic);
        call("enqueueTaskRecord", topic, partition, timestamp, key, value, headers);
        process();
    }

    /** Advance the wall clock without a commit. */
    public void advance(long milliseconds) {
        field(Time.class, "mockWallClockTime").sleep(milliseconds);
        if (driver.task != null) {
            driver.task.maybePunctuateSystemTime();
        }
        process();
    }

    /** Commit, and process what the caches then write to internal topics, until nothing is left. */
    public void commit() {
        if (driver.task == null) {
            return;
        }
        do {
            process();
            call("commit", driver.task.prepareCommit(true));
            driver.task.postCommit(true);
            capture();
        } while (driver.task.hasRecordsQueued());
    }

    /** Make available what the producer has got. */
    public void capture() {
        call("captureOutputsAndReEnqueueInternalResults");
    }

    private void process() {
        capture();
        StreamTask task = driver.task;
        if (task == null) {
            return;
        }
        task.resumePollingForPartitionsWithAvailableSpace();
        task.updateLags();
        while (task.hasRecordsQueued() && task.isProcessable(0)) {
            task.process(0);
            task.maybePunctuateStreamTime();
            capture();
        }
    }

    /** Let lots decide between inputs whose next records have equal timestamps. */
    public void drawLots(long seed) throws ReflectiveOperationException {
        if (driver.task == null) {
            return;
        }
        Field group = StreamTask.class.getDeclaredField("partitionGroup");
        group.setAccessible(true);
        Object partitions = group.get(driver.task);
        Field queues = partitions.getClass().getDeclaredField("nonEmptyQueuesByTime");
        queues.setAccessible(true);
        queues.set(partitions, new Lots(seed));
    }

    private static final class Lots extends PriorityQueue<RecordQueue> {
        private final transient Map<RecordQueue, Integer> lots;
        private final transient Random random;

        Lots(long seed) {
            this(new HashMap<>(), new Random(seed));
        }

        private Lots(Map<RecordQueue, Integer> lots, Random random) {
            super((left, right) -> left.headRecordTimestamp() == right.headRecordTimestamp()
                ? Integer.compare(lots.get(left), lots.get(right))
                : Long.compare(left.headRecordTimestamp(), right.headRecordTimestamp()));
            this.lots = lots;
            this.random = random;
        }

        @Override
        public boolean offer(RecordQueue queue) {
            lots.put(queue, random.nextInt());
            return super.offer(queue);
        }
    }

    private <T> T field(Class<T> type, String name) {
        try {
            Field field = TopologyTestDriver.class.getDeclaredField(name);
            field.setAccessible(true);
            return type.cast(field.get(driver));
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private Object call(String name, Object... arguments) {
        try {
            for (Method method : TopologyTestDriver.class.getDeclaredMethods()) {
                if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
                    method.setAccessible(true);
                    return method.invoke(driver, arguments);
                }
            }
            throw new NoSuchMethodException(name);
        } catch (InvocationTargetException error) {
            throw error.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(error.getCause());
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
