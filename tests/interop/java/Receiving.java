/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * A push consumer that notes what it got, in the foreground (consume) or until it is stopped (startConsumer ...). With later=N it
 * asks for every N-th message again, a second later; with listener=orderly it takes the queues under the broker's locks; from
 * message timedFrom=N on it notes how long each was on its way; with pop=1 the broker says which queues it pulls or pops; with sql= the
 * broker filters by that condition, with broadcast=1 each member gets all; with trace=1 what is consumed is traced; with live=FILE each message is a
 * line there as it comes, which a kill does not undo.
 */
final class Receiving implements MessageListenerConcurrently {
    private static final Map<String, Receiving> RUNNING = new ConcurrentHashMap<>();
    private static final AtomicInteger INSTANCES = new AtomicInteger();

    private final DefaultMQPushConsumer consumer;
    private final String topic;
    private final String reportPath;
    private final PrintWriter live;
    private final Map<Long, String> lines = new TreeMap<>();
    private final int later;
    private final int timedFrom;
    private final List<Long> delays = new ArrayList<>();
    private int total;
    private int again;

    private Receiving(Args args) throws Exception {
        topic = args.need("topic");
        reportPath = args.get("report", "");
        live = args.get("live", "").isEmpty() ? null : new PrintWriter(args.need("live"), "UTF-8");
        later = args.number("later", 0);
        timedFrom = args.number("timedFrom", -1);
        consumer = new DefaultMQPushConsumer(args.need("group"));
        consumer.setNamesrvAddr(args.need("ns"));
        args.setNamespace(consumer);
        args.setTrace(consumer);
        consumer.setInstanceName(args.get("instance", "peer-consumer-" + INSTANCES.incrementAndGet()));
        consumer.setConsumeFromWhere(args.get("from", "first").equals("last")
            ? ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET : ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(args.number("threads", 4));
        consumer.setConsumeThreadMax(args.number("threads", 4));
        if (args.get("sql", "").isEmpty()) {
            consumer.subscribe(topic, args.get("expr", "*").replace("||", " || "));
        } else {
            consumer.subscribe(topic, MessageSelector.bySql(args.need("sql")));
        }
        if (args.number("broadcast", 0) > 0) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        if (args.number("pop", 0) > 0) {
            // Only clients of 5.x have it.
            DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
        }
        if (args.get("strategy", "AVG").equals("CONSISTENT_HASH")) {
            consumer.setAllocateMessageQueueStrategy(new AllocateMessageQueueConsistentHash());
        }
        if (args.get("listener", "concurrent").equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                consumeMessage(messages, null) == ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                    ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener(this);
        }
        consumer.start();
    }

    static String consume(Args args) throws Exception {
        Receiving receiving = new Receiving(args);
        try {
            receiving.await(args.number("count", 1), args.number("timeout", 60));
            Thread.sleep(args.number("linger", 0));
        } finally {
            receiving.consumer.shutdown();
        }
        return receiving.report();
    }

    static String start(Args args) throws Exception {
        Receiving receiving = new Receiving(args);
        RUNNING.put(args.need("name"), receiving);
        return "clientId=" + receiving.clientId();
    }

    static String stop(Args args) throws Exception {
        Receiving receiving = RUNNING.remove(args.need("name"));
        receiving.consumer.shutdown();
        return receiving.report();
    }

    static String wait(Args args) throws Exception {
        Receiving receiving = RUNNING.get(args.need("name"));
        receiving.await(args.number("count", 1), args.number("timeout", 60));
        return receiving.report();
    }

    /** The queues of the topic that this member holds now, as its own process queue table says. */
    static String queues(Args args) {
        Receiving receiving = RUNNING.get(args.need("name"));
        TreeSet<Integer> ids = new TreeSet<>();
        for (MessageQueue queue : receiving.consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl()
            .getProcessQueueTable().keySet()) {
            if (queue.getTopic().equals(receiving.topic)) {
                ids.add(queue.getQueueId());
            }
        }
        return "clientId=" + receiving.clientId() + "\nqueues=" + ids.toString().replaceAll("[\\[\\] ]", "");
    }

    private String clientId() {
        return consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId();
    }

    @Override
    public ConsumeConcurrentlyStatus consumeMessage(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        for (MessageExt message : messages) {
            try {
                if (later > 0 && message.getReconsumeTimes() == 0 && index(message) % later == 0) {
                    context.setDelayLevelWhenNextConsume(1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                if (!message.getTopic().equals(topic)) {
                    throw new IllegalStateException("topic " + message.getTopic());
                }
                note(message);
            } catch (Exception e) {
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
        }
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }

    private static long index(MessageExt message) {
        return Long.parseLong(message.getUserProperty("idx"));
    }

    private void note(MessageExt message) throws Exception {
        String index = message.getUserProperty("idx");
        String line = Content.line(message);
        synchronized (lines) {
            total++;
            if (live != null) {
                live.println("{\"queueId\":" + message.getQueueId() + ",\"queueOffset\":" + message.getQueueOffset()
                    + ",\"properties\":{\"idx\":\"" + index + "\"}}");
                live.flush();
            }
            if (timedFrom >= 0 && index(message) >= timedFrom) {
                delays.add(System.currentTimeMillis() - message.getBornTimestamp());
            }
            again += message.getReconsumeTimes() > 0 ? 1 : 0;
            lines.put(index == null ? -(long) total : Long.parseLong(index), line);
            lines.notifyAll();
        }
    }

    private void await(int count, int seconds) throws InterruptedException {
        long deadline = System.nanoTime() + seconds * 1_000_000_000L;
        synchronized (lines) {
            while (lines.size() < count) {
                long left = (deadline - System.nanoTime()) / 1_000_000;
                if (left <= 0) {
                    return;
                }
                lines.wait(left);
            }
        }
    }

    private static long p99(List<Long> values) {
        Collections.sort(values);
        return values.get((int) (0.99 * (values.size() - 1)));
    }

    private String report() throws Exception {
        synchronized (lines) {
            if (!reportPath.isEmpty()) {
                try (PrintWriter out = new PrintWriter(reportPath, "UTF-8")) {
                    lines.values().forEach(out::println);
                }
            }
            return "distinct=" + lines.size() + "\nduplicates=" + (total - lines.size())
                + (again > 0 ? "\nagain=" + again : "") + (delays.isEmpty() ? "" : "\np99=" + p99(delays));
        }
    }
}
