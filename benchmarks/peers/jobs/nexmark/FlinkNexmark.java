import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/**
 * A query of Nexmark with Flink SQL in an embedded MiniCluster: runs the statements of a file, of which the last one is
 * the job, and writes the figures of the job. Arguments: statements, file of the figures, directory of checkpoints, state
 * backend, events of the inputs, events of the start that the rate leaves out.
 */
public class FlinkNexmark {
    static final OperatingSystemMXBean SYSTEM = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    public static void main(String[] arguments) throws Exception {
        TableEnvironment tables = TableEnvironment.create(
            EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(settings(arguments[2], arguments[3])).build());
        tables.createTemporarySystemFunction("count_char", CountChar.class);
        TableResult job = null;
        for (String statement : Files.readString(Path.of(arguments[0])).split(";\\s*")) {
            if (!statement.isBlank()) {
                job = tables.executeSql(statement);
            }
        }
        String figures = measure(job.getJobClient().get(), Long.parseLong(arguments[4]), Long.parseLong(arguments[5]));
        Files.writeString(Path.of(arguments[1]), figures);
        System.exit(0); // threads of the cluster are still running
    }

    /** Mini-batches and split distinct aggregates are those of the published benchmark. */
    static Configuration settings(String checkpoints, String backend) {
        Configuration settings = new Configuration();
        settings.setString("parallelism.default", "2");
        settings.setString("execution.checkpointing.interval", "1 s"); // exactly once by default
        settings.setString("execution.checkpointing.storage", "filesystem");
        settings.setString("execution.checkpointing.dir", "file://" + checkpoints);
        settings.setString("state.backend.type", backend);
        settings.setString("execution.checkpointing.incremental", "true"); // where the backend can
        settings.setString("taskmanager.memory.managed.size", "1 gb");
        settings.setString("pipeline.object-reuse", "true");
        settings.setString("restart-strategy.type", "none");
        settings.setString("table.local-time-zone", "UTC");
        settings.setString("table.exec.mini-batch.enabled", "true");
        settings.setString("table.exec.mini-batch.allow-latency", "2 s");
        settings.setString("table.exec.mini-batch.size", "50000");
        settings.setString("table.optimizer.distinct-agg.split.enabled", "true");
        settings.setString("metrics.reporter.progress.factory.class", Progress.class.getName());
        return settings;
    }

    /** Return the figures of a job as JSON; it ends when its inputs do. */
    static String measure(JobClient job, long events, long start) throws Exception {
        var execution = job.getJobExecutionResult();
        long begin = System.nanoTime(), warm = 0, warmRead = 0, warmCpu = 0, last = begin, lastCpu = 0, moved = -1;
        while (!execution.isDone()) {
            long now = System.nanoTime(), total = Progress.total();
            if (warm == 0 && Progress.read() >= start) {
                warm = now;
                warmRead = Progress.read();
                warmCpu = SYSTEM.getProcessCpuTime();
            }
            if (total > moved) {
                moved = total;
                last = now;
                lastCpu = SYSTEM.getProcessCpuTime();
            }
            TimeUnit.MILLISECONDS.sleep(5);
        }
        execution.get(); // throws if it has failed
        double left = events * (1 - (double) warmRead / Progress.read()); // a plan may read an input twice
        return String.format(Locale.ROOT,
            "{\"records\": %d, \"read\": %d, \"records_per_second\": %f, \"seconds\": %f, \"cpu_seconds\": %f, "
                + "\"warm_records\": %f, \"warm_cpu_seconds\": %f}",
            events, Progress.read(), left / ((last - warm) / 1e9), (System.nanoTime() - begin) / 1e9,
            SYSTEM.getProcessCpuTime() / 1e9, left, (lastCpu - warmCpu) / 1e9);
    }
}
