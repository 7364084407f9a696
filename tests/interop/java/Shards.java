/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.MessageQueue;

/** Where the Java hash selector puts keys: reads keys by lines, prints a queue id for each. Argument: number of queues. */
public class Shards {
    public static void main(String[] args) throws Exception {
        List<MessageQueue> queues = new ArrayList<>();
        for (int i = 0; i < Integer.parseInt(args[0]); i++) {
            queues.add(new MessageQueue("T", "b", i));
        }
        SelectMessageQueueByHash selector = new SelectMessageQueueByHash();
        BufferedReader keys = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String key; (key = keys.readLine()) != null; ) {
            System.out.println(selector.select(queues, null, key).getQueueId());
        }
    }
}
