/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Both sides of request and reply. A reply is the request's body behind "re:". */
final class Requests {
    private static final Map<String, Requests> SERVERS = new ConcurrentHashMap<>();

    private final AtomicInteger replied = new AtomicInteger();
    private final AtomicInteger failed = new AtomicInteger();
    private DefaultMQProducer producer;
    private DefaultMQPushConsumer consumer;

    private Requests() {
    }

    private static DefaultMQProducer producer(Args args, String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(args.need("ns"));
        producer.setInstanceName(group + System.nanoTime());
        producer.setSendMsgTimeout(30_000);
        producer.start();
        return producer;
    }

    /** Sends count requests one after the other; each reply must belong to its request. */
    static String ask(Args args) throws Exception {
        DefaultMQProducer producer = producer(args, args.get("group", "Askers"));
        Content content = new Content(args);
        int count = args.number("count", 1);
        int good = 0;
        try {
            for (int i = 0; i < count; i++) {
                Message request = content.message(i);
                Message reply = request(producer, request, 1000L * args.number("timeout", 60));
                String want = "re:" + Content.sha1(request.getBody());
                String got = "re:" + Content.sha1(java.util.Arrays.copyOfRange(reply.getBody(), 3, reply.getBody().length));
                good += want.equals(got) ? 1 : 0;
            }
        } finally {
            producer.shutdown();
        }
        return "replies=" + good;
    }

    /** With a callback: the blocking form of 5.3.3 does not wait for the reply, only for the answer of the send; there the callback comes without one. */
    private static Message request(DefaultMQProducer producer, Message request, long timeout) throws Exception {
        CompletableFuture<Message> future = new CompletableFuture<>();
        producer.request(request, new RequestCallback() {
            @Override
            public void onSuccess(Message message) {
                if (message != null) {
                    future.complete(message);
                }
            }

            @Override
            public void onException(Throwable e) {
                future.completeExceptionally(e);
            }
        }, timeout);
        return future.get(timeout, TimeUnit.MILLISECONDS);
    }

    static String startServer(Args args) throws Exception {
        Requests server = new Requests();
        server.producer = producer(args, "Repliers");
        server.consumer = new DefaultMQPushConsumer(args.need("group"));
        server.consumer.setNamesrvAddr(args.need("ns"));
        server.consumer.setInstanceName("server" + System.nanoTime());
        server.consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        server.consumer.subscribe(args.need("topic"), "*");
        server.consumer.registerMessageListener((org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently)
            (messages, context) -> {
                for (MessageExt message : messages) {
                    server.reply(message);
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        server.consumer.start();
        SERVERS.put(args.need("name"), server);
        return "";
    }

    private void reply(MessageExt message) {
        try {
            byte[] body = new byte[message.getBody().length + 3];
            body[0] = 'r';
            body[1] = 'e';
            body[2] = ':';
            System.arraycopy(message.getBody(), 0, body, 3, message.getBody().length);
            producer.send(MessageUtil.createReplyMessage(message, body));
            replied.incrementAndGet();
        } catch (Exception e) {
            e.printStackTrace();
            failed.incrementAndGet();
        }
    }

    static String stopServer(Args args) {
        Requests server = SERVERS.remove(args.need("name"));
        server.consumer.shutdown();
        server.producer.shutdown();
        return "replied=" + server.replied + "\nfailed=" + server.failed;
    }
}
