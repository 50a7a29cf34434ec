import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;

/** Processors that read or write headers, or choose the children that they forward to. */
final class Headed {
    private Headed() {}

    /** Process a record if the processor is one of these; return whether it is. */
    static boolean process(String name, String reference, Record<Object, Object> record, ProcessorContext<Object, Object> context) {
        String argument = Functions.argument(reference);
        switch (name) {
            case "add_header" -> context.forward(record.withHeaders(with(record.headers(), argument, record.value())));
            case "remove_header" -> context.forward(record.withHeaders(without(record.headers(), argument)));
            case "header_to_value" -> {
                Header last = record.headers().lastHeader(argument);
                String text = last == null || last.value() == null ? "null" : new String(last.value(), StandardCharsets.UTF_8);
                context.forward(record.withValue(Functions.text(record.value()) + "+" + text));
            }
            case "drop_headers" -> context.forward(new Record<>(record.key(), record.value(), record.timestamp()));
            case "fail_on_punctuate" -> context.forward(record);
            case "forward_named" -> {
                for (String rule : argument.split(",")) {
                    int equals = rule.indexOf('=');
                    String text = rule.substring(0, equals);
                    String child = rule.substring(equals + 1);
                    if (text.equals("*") || Functions.text(record.value()).contains(text)) {
                        if (child.isEmpty()) {
                            context.forward(record);
                        } else {
                            context.forward(record, child);
                        }
                        break;
                    }
                }
            }
            default -> {
                return false;
            }
        }
        return true;
    }

    static Headers with(Headers headers, String name, Object value) {
        return new RecordHeaders(headers).add(name, Functions.text(value).getBytes(StandardCharsets.UTF_8));
    }

    static Headers without(Headers headers, String name) {
        return new RecordHeaders(headers).remove(name);
    }
}
