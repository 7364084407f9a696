/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */

import java.util.LinkedHashMap;
import java.util.Map;

import org.apache.rocketmq.client.ClientConfig;

/** The key=value words of one command line, with defaults where a word is left out. */
final class Args {
    private final Map<String, String> values = new LinkedHashMap<>();

    Args(String[] words, int from) {
        for (int i = from; i < words.length; i++) {
            int cut = words[i].indexOf('=');
            if (cut <= 0) {
                throw new IllegalArgumentException("not key=value: " + words[i]);
            }
            values.put(words[i].substring(0, cut), words[i].substring(cut + 1));
        }
    }

    String need(String key) {
        String value = values.get(key);
        if (value == null) {
            throw new IllegalArgumentException("missing " + key + "=");
        }
        return value;
    }

    String get(String key, String otherwise) {
        return values.getOrDefault(key, otherwise);
    }

    int number(String key, int otherwise) {
        String value = values.get(key);
        return value == null ? otherwise : Integer.parseInt(value);
    }

    /** trace=1: what is sent or consumed is traced; only clients of 5.x are told like this. */
    void setTrace(ClientConfig client) throws ReflectiveOperationException {
        if (number("trace", 0) > 0) {
            ClientConfig.class.getMethod("setEnableTrace", boolean.class).invoke(client, true);
        }
    }

    /** namespace= and namespaceV2=; only clients of 5.x have the second. */
    void setNamespace(ClientConfig client) throws ReflectiveOperationException {
        if (values.containsKey("namespace")) {
            client.setNamespace(values.get("namespace"));
        }
        if (values.containsKey("namespaceV2")) {
            ClientConfig.class.getMethod("setNamespaceV2", String.class).invoke(client, values.get("namespaceV2"));
        }
    }
}
