import java.util.List;
import java.util.Properties;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Metric;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.reporter.MetricReporter;
import org.apache.flink.metrics.reporter.MetricReporterFactory;

/** How far the job is: keeps Flink's own counters of records, which are read while it runs; counts nothing itself. */
public class Progress implements MetricReporterFactory {
    static final List<Counter> SOURCES = new CopyOnWriteArrayList<>(), OPERATORS = new CopyOnWriteArrayList<>();

    /** Return the number of events that the sources have read. */
    static long read() {
        return SOURCES.stream().mapToLong(Counter::getCount).sum();
    }

    /** Return the number of records that all operators have received: it stands still when nothing is left to do. */
    static long total() {
        return read() + OPERATORS.stream().mapToLong(Counter::getCount).sum();
    }

    @Override
    public MetricReporter createMetricReporter(Properties properties) {
        return new Reporter();
    }

    static class Reporter implements MetricReporter {
        @Override
        public void notifyOfAddedMetric(Metric metric, String name, MetricGroup group) {
            String operator = group.getAllVariables().get("<operator_name>");
            if (operator != null && name.equals("numRecordsIn")) {
                (operator.startsWith("Source: ") ? SOURCES : OPERATORS).add((Counter) metric);
            }
        }

        @Override
        public void notifyOfRemovedMetric(Metric metric, String name, MetricGroup group) {}

        @Override
        public void open(org.apache.flink.metrics.MetricConfig config) {}

        @Override
        public void close() {}
    }
}
