import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.streams.kstream.Windowed;

/** The functions that cases refer to by name. */
final class Functions {
    private Functions() {}

    static String text(Object value) {
        if (value == null) {
            return "null";
        }
        if (value instanceof Windowed<?> windowed) {
            return "[" + text(windowed.key()) + "@" + windowed.window().start() + "/" + windowed.window().end() + "]";
        }
        return value.toString();
    }

    static String argument(String reference) {
        int colon = reference.indexOf(':');
        return colon < 0 ? "" : reference.substring(colon + 1);
    }

    static String name(String reference) {
        int colon = reference.indexOf(':');
        return colon < 0 ? reference : reference.substring(0, colon);
    }

    static boolean test(String reference, Object k, Object v) {
        String x = argument(reference);
        return switch (name(reference)) {
            case "all" -> true;
            case "none" -> false;
            case "value_null" -> v == null;
            case "key_null" -> k == null;
            case "value_contains" -> v != null && text(v).contains(x);
            case "value_len_gt" -> v != null && text(v).length() > Integer.parseInt(x);
            case "value_in" -> v != null && Arrays.asList(x.split(",")).contains(text(v));
            case "key_in" -> k != null && Arrays.asList(x.split(",")).contains(text(k));
            case "value_even" -> v != null && Long.parseLong(text(v)) % 2 == 0;
            default -> throw new IllegalArgumentException(reference);
        };
    }

    static Object map(String reference, Object k, Object v) {
        String x = argument(reference);
        return switch (name(reference)) {
            case "key" -> k == null ? null : text(k);
            case "value" -> v;
            case "value_text" -> v == null ? null : text(v);
            case "null" -> null;
            case "const" -> x;
            case "upper" -> v == null ? null : text(v).toUpperCase();
            case "append" -> v == null ? null : text(v) + x;
            case "text_append" -> text(v) + x;
            case "len" -> v == null ? null : "" + text(v).length();
            case "first_char" -> v == null || text(v).isEmpty() ? null : text(v).substring(0, 1);
            case "key_first_char" -> k == null || text(k).isEmpty() ? null : text(k).substring(0, 1);
            case "key_append" -> k == null ? null : text(k) + x;
            case "key_value" -> text(k) + ":" + text(v);
            case "null_if_contains" -> v == null || text(v).contains(x) ? null : v;
            case "key_null_if_contains" -> k == null || text(k).contains(x) ? null : text(k);
            case "key_char" -> k == null ? null : text(k).substring(Integer.parseInt(x), Integer.parseInt(x) + 1);
            case "value_unless_key_in" ->
                v == null || k != null && Arrays.asList(x.split(",")).contains(text(k)) ? null : text(v);
            case "comma_field" -> v == null ? null : field(text(v).replace("|", "/").replace(",", "|"), Integer.parseInt(x));
            case "fail_if_contains" -> {
                fail(text(v), x);
                yield v;
            }
            case "value_field" -> v == null ? null : field(text(v), Integer.parseInt(x));
            case "value_field_not" -> {
                String part = v == null ? null : field(text(v), Integer.parseInt(x.substring(0, x.indexOf(':'))));
                yield x.substring(x.indexOf(':') + 1).equals(part) ? null : part;
            }
            default -> throw new IllegalArgumentException(reference);
        };
    }

    private static void fail(String text, String x) {
        if (text.contains(x)) {
            throw new IllegalStateException(text + " contains " + x);
        }
    }

    private static String field(String text, int number) {
        String[] parts = text.split("\\|", -1);
        return number < parts.length ? parts[number] : null;
    }

    static List<Object> list(String reference, Object v) {
        String x = argument(reference);
        return switch (name(reference)) {
            case "split_chars" -> {
                List<Object> result = new ArrayList<>();
                if (v != null) {
                    for (char c : text(v).toCharArray()) {
                        result.add("" + c);
                    }
                }
                yield result;
            }
            case "split_fields" -> v == null ? List.of() : new ArrayList<>(Arrays.asList((Object[]) text(v).split("\\|", -1)));
            case "twice" -> Arrays.asList(v, v);
            case "empty" -> List.of();
            case "drop_if_contains" -> v != null && text(v).contains(x) ? List.of() : Arrays.asList(v);
            default -> throw new IllegalArgumentException(reference);
        };
    }

    static Object join(String reference, Object k, Object l, Object r) {
        String x = argument(reference);
        return switch (name(reference)) {
            case "concat" -> text(l) + (x.isEmpty() ? "+" : x) + text(r);
            case "pair" -> "(" + text(l) + "," + text(r) + ")";
            case "concat_key" -> text(k) + ":" + text(l) + "+" + text(r);
            case "left" -> l;
            case "right" -> r;
            case "fail_if_contains" -> {
                fail(text(l) + text(r), x);
                yield text(l) + "+" + text(r);
            }
            case "null_if_contains" -> (text(l) + text(r)).contains(x) ? null : text(l) + "+" + text(r);
            default -> throw new IllegalArgumentException(reference);
        };
    }

    static Object aggregate(String reference, Object k, Object g, Object v) {
        String x = argument(reference);
        return switch (name(reference)) {
            case "concat_plus" -> text(g) + "+" + text(v);
            case "append" -> text(g) + text(v);
            case "minus" -> text(g) + "-" + text(v);
            case "erase" -> text(v).isEmpty() ? text(g) : text(g).replace(text(v), "");
            case "remove_last_occurrence" -> {
                int at = text(g).lastIndexOf("+" + text(v));
                yield at < 0 ? text(g) : text(g).substring(0, at) + text(g).substring(at + 1 + text(v).length());
            }
            case "max" -> v == null || text(g).compareTo(text(v)) >= 0 ? g : text(v);
            case "min" -> v == null || text(g).compareTo(text(v)) <= 0 ? g : text(v);
            case "latest" -> v;
            case "sum_len" -> "" + (Long.parseLong(text(g)) + text(v).length());
            case "sub_len" -> "" + (Long.parseLong(text(g)) - text(v).length());
            case "sorted_chars" -> {
                char[] chars = (text(g) + text(v)).toCharArray();
                Arrays.sort(chars);
                yield new String(chars);
            }
            case "sum" -> "" + (Long.parseLong(text(g)) + Long.parseLong(text(v)));
            case "fail_if_contains" -> {
                fail(text(v), x);
                yield text(g) + "+" + text(v);
            }
            case "concat_or_null" -> text(v).contains(x) ? null : text(g) + "+" + text(v);
            case "with_key" -> text(g) + "+" + text(k) + "=" + text(v);
            default -> throw new IllegalArgumentException(reference);
        };
    }
}
