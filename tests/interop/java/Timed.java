/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Messages for a time, every recall-th of which is taken back at once. */
final class Timed {
    private Timed() {
    }

    static String run(Args args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("Timed");
        producer.setNamesrvAddr(args.need("ns"));
        producer.setInstanceName("timed" + System.nanoTime());
        producer.setSendMsgTimeout(30_000);
        producer.start();
        List<String> handles = new ArrayList<>();
        Content content = new Content(args);
        try {
            for (int i = 0; i < args.number("count", 1); i++) {
                Message message = content.message(i);
                if (i % 2 == 0) {
                    message.setDelayTimeMs(args.number("ms", 5000));
                } else {
                    message.setDeliverTimeMs(System.currentTimeMillis() + args.number("ms", 5000));
                }
                SendResult result = producer.send(message);
                if (message.getTags().equals("Recalled")) {
                    handles.add(result.getRecallHandle());
                }
            }
            for (String handle : handles) {
                producer.recallMessage(args.need("topic"), handle);
            }
        } finally {
            producer.shutdown();
        }
        return "recalled=" + handles.size();
    }
}
