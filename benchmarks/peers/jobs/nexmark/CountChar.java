import org.apache.flink.table.functions.ScalarFunction;

/** The function of the user in q14: how often a text contains a character. */
public class CountChar extends ScalarFunction {
    public long eval(String text, String character) {
        return text.chars().filter(letter -> letter == character.charAt(0)).count();
    }
}
