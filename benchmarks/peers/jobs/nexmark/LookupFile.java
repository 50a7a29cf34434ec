import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.LookupTableSource;
import org.apache.flink.table.connector.source.lookup.LookupFunctionProvider;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.LookupFunction;

/** The connector of the bounded table of q13: a file of JSON lines with a key and a value, held in memory for lookups. */
public class LookupFile implements DynamicTableSourceFactory {
    static final ConfigOption<String> PATH = ConfigOptions.key("path").stringType().noDefaultValue();

    @Override
    public String factoryIdentifier() {
        return "lookup-file";
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
    public DynamicTableSource createDynamicTableSource(Context context) {
        return new Table(context.getCatalogTable().getOptions().get(PATH.key()));
    }

    record Table(String path) implements LookupTableSource {
        @Override
        public LookupRuntimeProvider getLookupRuntimeProvider(LookupContext context) {
            return LookupFunctionProvider.of(new Rows(path));
        }

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "a file of JSON lines in memory";
        }
    }

    public static class Rows extends LookupFunction {
        final String path;
        transient Map<Long, RowData> rows;

        Rows(String path) {
            this.path = path;
        }

        @Override
        public void open(FunctionContext context) throws IOException {
            rows = new HashMap<>();
            ObjectMapper mapper = new ObjectMapper();
            for (String line : Files.readAllLines(Path.of(path))) {
                JsonNode row = mapper.readTree(line);
                long key = row.get("key").asLong();
                rows.put(key, GenericRowData.of(key, StringData.fromString(row.get("value").asText())));
            }
        }

        @Override
        public Collection<RowData> lookup(RowData key) {
            RowData row = rows.get(key.getLong(0));
            return row == null ? List.of() : List.of(row);
        }
    }
}
