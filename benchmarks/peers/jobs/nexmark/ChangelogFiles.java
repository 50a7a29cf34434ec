import java.io.IOException;
import java.io.OutputStream;
import java.util.Set;
import org.apache.flink.api.common.serialization.Encoder;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.formats.json.JsonFormatFactory;
import org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners.BasePathBucketAssigner;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.format.EncodingFormat;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.sink.SinkV2Provider;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.types.DataType;
import org.apache.flink.types.RowKind;

/**
 * The connector of results: files of JSON lines, exactly once, with Flink's own file sink and its JSON format. A line
 * starts with + or, if its row is removed, with -. A table with a primary key receives no rows before an update.
 */
public class ChangelogFiles implements DynamicTableSinkFactory {
    static final ConfigOption<String> PATH = ConfigOptions.key("path").stringType().noDefaultValue();

    @Override
    public String factoryIdentifier() {
        return "changelog-files";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(PATH);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }

    @Override
    public DynamicTableSink createDynamicTableSink(Context context) {
        return new Table(
            context.getCatalogTable().getOptions().get(PATH.key()),
            context.getPhysicalRowDataType(),
            context.getPrimaryKeyIndexes().length > 0,
            new JsonFormatFactory().createEncodingFormat(context, new Configuration()));
    }

    record Table(String path, DataType type, boolean isKeyed, EncodingFormat<SerializationSchema<RowData>> json)
        implements DynamicTableSink {
        @Override
        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            return isKeyed ? ChangelogMode.upsert() : requested;
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
            return SinkV2Provider.of(
                FileSink.forRowFormat(new Path(path), new Lines(json.createRuntimeEncoder(context, type)))
                    .withBucketAssigner(new BasePathBucketAssigner<>())
                    .withRollingPolicy(OnCheckpointRollingPolicy.build())
                    .build());
        }

        @Override
        public DynamicTableSink copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "files of JSON lines";
        }
    }

    static class Lines implements Encoder<RowData> {
        final SerializationSchema<RowData> json;
        transient boolean isOpen;

        Lines(SerializationSchema<RowData> json) {
            this.json = json;
        }

        @Override
        public void encode(RowData row, OutputStream stream) throws IOException {
            if (!isOpen) {
                try {
                    json.open(null); // an encoder of files has no context, and JSON does not use it
                } catch (Exception error) {
                    throw new IOException(error);
                }
                isOpen = true;
            }
            RowKind kind = row.getRowKind();
            stream.write(kind == RowKind.INSERT || kind == RowKind.UPDATE_AFTER ? '+' : '-');
            stream.write(json.serialize(row));
            stream.write('\n');
        }
    }
}
