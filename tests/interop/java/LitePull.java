/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */

import java.io.PrintWriter;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** A lite pull consumer that polls until it has so many messages, and commits by hand. The report is that of Receiving. */
final class LitePull {
    private LitePull() {
    }

    static String run(Args args) throws Exception {
        Map<Long, String> lines = new TreeMap<>();
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(args.need("group"));
        consumer.setNamesrvAddr(args.need("ns"));
        consumer.setInstanceName("peer-lite-" + args.need("group"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        consumer.subscribe(args.need("topic"), "*");
        consumer.start();
        int total = 0;
        try {
            long deadline = System.nanoTime() + args.number("timeout", 60) * 1_000_000_000L;
            while (lines.size() < args.number("count", 1) && System.nanoTime() < deadline) {
                for (MessageExt message : consumer.poll(1000)) {
                    total++;
                    lines.put(Long.parseLong(message.getUserProperty("idx")), Content.line(message));
                }
                consumer.commitSync();
            }
        } finally {
            consumer.shutdown();
        }
        try (PrintWriter out = new PrintWriter(args.need("report"), "UTF-8")) {
            lines.values().forEach(out::println);
        }
        return "distinct=" + lines.size() + "\nduplicates=" + (total - lines.size());
    }
}
