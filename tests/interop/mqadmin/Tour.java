/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs the mqadmin command lines of a file against a cluster, in one process, with a producer and a consumer online:
 *   java -cp 'jars/*' Tour.java NAMESRV BROKER_ADDRESS BROKER_NAME COMMANDS OUTPUT_DIRECTORY
 * What the Nth one prints becomes the file N-name of the output directory. In the lines @ns, @addr, @broker, @dir, @uniq (a message's unique id) and
 * @offid (its offset id) are replaced; "#" begins a comment.
 */
public final class Tour {
    private static final long LIMIT_S = 90;

    private Tour() {
    }

    public static void main(String[] args) throws Exception {
        Path out = Paths.get(args[4]);
        Files.createDirectories(out);
        System.setProperty("rocketmq.namesrv.addr", args[0]);
        try (Clients clients = new Clients(args[0], args[2])) {
            int number = 0;
            for (String line : Files.readAllLines(Paths.get(args[3]), StandardCharsets.UTF_8)) {
                if (line.trim().isEmpty() || line.startsWith("#")) {
                    continue;
                }
                String[] words = line.replace("@ns", args[0]).replace("@addr", args[1]).replace("@broker", args[2])
                    .replace("@dir", args[4]).replace("@uniq", clients.sent.getMsgId())
                    .replace("@offid", clients.sent.getOffsetMsgId()).trim().split(" +");
                String text = run(words);
                Files.write(out.resolve(String.format("%03d-%s", ++number, words[0])),
                    (line + "\n" + text).getBytes(StandardCharsets.UTF_8));
            }
        }
        System.exit(0);
    }

    private static String run(String[] words) throws Exception {
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        PrintStream out = System.out;
        PrintStream err = System.err;
        PrintStream capture = new PrintStream(text, true, "UTF-8");
        System.setOut(capture);
        System.setErr(capture);
        Thread thread = new Thread(() -> MQAdminStartup.main0(words, new NoHook()));
        thread.setDaemon(true);
        thread.start();
        thread.join(TimeUnit.SECONDS.toMillis(LIMIT_S));
        System.setOut(out);
        System.setErr(err);
        return text.toString("UTF-8") + (thread.isAlive() ? "\n[still running]\n" : "");
    }

    /** A producer, a consumer that has got what it sent, and one of the messages. */
    private static final class Clients implements AutoCloseable {
        private final DefaultMQProducer producer = new DefaultMQProducer("TourProducer");
        private final DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("TourGroup");
        private final CountDownLatch got = new CountDownLatch(40);
        private SendResult sent;

        Clients(String namesrv, String broker) throws Exception {
            producer.setNamesrvAddr(namesrv);
            producer.setSendMsgTimeout(20000);
            producer.start();
            producer.createTopic(broker, "Tour", 4, null);
            consumer.setNamesrvAddr(namesrv);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe("Tour", "TagA || TagB");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(message -> got.countDown());
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            for (int i = 0; i < 40; i++) {
                sent = send(i);
            }
            if (!got.await(60, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the consumer did not get everything");
            }
            consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
            // The first one may have found no broker yet, and the next comes after half a minute.
            producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
        }

        /** The topic may be on its way. */
        private SendResult send(int i) throws Exception {
            for (int attempt = 0;; attempt++) {
                try {
                    return producer.send(new Message("Tour", i % 2 == 0 ? "TagA" : "TagB", "key" + i,
                        ("body " + i).getBytes(StandardCharsets.UTF_8)), (queues, message, id) ->
                        queues.get((Integer) id % queues.size()), i);
                } catch (Exception e) {
                    if (attempt == 20) {
                        throw e;
                    }
                    Thread.sleep(500);
                }
            }
        }

        @Override
        public void close() {
            consumer.shutdown();
            producer.shutdown();
        }
    }

    private static final class NoHook implements RPCHook {
        @Override
        public void doBeforeRequest(String address, RemotingCommand request) {
        }

        @Override
        public void doAfterResponse(String address, RemotingCommand request, RemotingCommand response) {
        }
    }
}
