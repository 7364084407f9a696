/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;

/**
 * Evaluates every expression of a vector file with every property set by the Java filter. A result is one letter per set: T, F, N (null), E (thrown); or
 * "!" when the expression is refused. Compares with the results in the file, or with "record" writes them:
 *   java -cp 'jars/*' SqlVectors.java tests/vectors/sql92.json [record]
 */
public final class SqlVectors {
    private SqlVectors() {
    }

    public static void main(String[] args) throws Exception {
        Path path = Paths.get(args[0]);
        JSONObject file = JSON.parseObject(new String(Files.readAllBytes(path), StandardCharsets.UTF_8));
        JSONArray sets = file.getJSONArray("sets");
        JSONArray cases = file.getJSONArray("cases");
        StringBuilder out = new StringBuilder("{\"sets\":[");
        for (int i = 0; i < sets.size(); i++) {
            out.append(i == 0 ? "\n" : ",\n").append(JSON.toJSONString(sets.get(i)));
        }
        out.append("],\n\"cases\":[");
        int different = 0;
        for (int i = 0; i < cases.size(); i++) {
            String expression = cases.getJSONObject(i).getString("e");
            String result = evaluate(expression, sets);
            if (!result.equals(cases.getJSONObject(i).getString("r"))) {
                different++;
                System.out.println("different: " + result + " " + JSON.toJSONString(expression));
            }
            out.append(i == 0 ? "\n" : ",\n").append("{\"e\":").append(JSON.toJSONString(expression))
                .append(",\"r\":\"").append(result).append("\"}");
        }
        out.append("]}\n");
        if (args.length > 1) {
            Files.write(path, out.toString().getBytes(StandardCharsets.UTF_8));
        }
        System.out.println("cases=" + cases.size() + " sets=" + sets.size() + " different=" + different);
    }

    private static String evaluate(String text, JSONArray sets) {
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get("SQL92").compile(text);
        } catch (MQFilterException e) {
            return "!";
        }
        StringBuilder result = new StringBuilder();
        for (int i = 0; i < sets.size(); i++) {
            Map<String, String> properties = new HashMap<>();
            sets.getJSONObject(i).forEach((k, v) -> properties.put(k, (String) v));
            try {
                Object value = expression.evaluate(new MessageEvaluationContext(properties));
                result.append(value == null ? 'N' : Boolean.TRUE.equals(value) ? 'T' : 'F');
            } catch (Throwable e) {
                result.append('E');
            }
        }
        return result.toString();
    }
}
