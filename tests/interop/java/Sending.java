/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;

/**
 * One run of sends, in the foreground (produce) or beside other commands (startProducer ... stopProducer). acks=FILE gets the
 * numbers of what was acknowledged, ids=FILE the message ids; with trace=1 each send is traced.
 */
final class Sending implements Runnable {
    private static final int WINDOW = 200;
    private static final Map<String, DefaultMQProducer> PRODUCERS = new ConcurrentHashMap<>();
    private static final Map<String, Sending> RUNNING = new ConcurrentHashMap<>();

    private final Args args;
    private final Content content;
    private final DefaultMQProducer producer;
    private final PrintWriter acks;
    private final PrintWriter ids;
    private final Semaphore window = new Semaphore(WINDOW);
    private final AtomicInteger acked = new AtomicInteger();
    private final AtomicInteger failed = new AtomicInteger();
    private volatile String firstError = "";
    private volatile boolean stop;
    private Thread thread;

    private Sending(Args args) throws Exception {
        this.args = args;
        content = new Content(args);
        producer = producer(args);
        acks = writer(args.get("acks", ""));
        ids = writer(args.get("ids", ""));
    }

    private static PrintWriter writer(String path) throws Exception {
        return path.isEmpty() ? null : new PrintWriter(path, "UTF-8");
    }

    static String produce(Args args) throws Exception {
        Sending sending = new Sending(args);
        sending.run();
        return sending.summary();
    }

    static String start(Args args) throws Exception {
        Sending sending = new Sending(args);
        if (RUNNING.putIfAbsent(args.need("name"), sending) != null) {
            throw new IllegalStateException("a producer of that name is running");
        }
        sending.thread = new Thread(sending, "send-" + args.need("name"));
        sending.thread.start();
        return "";
    }

    static String stop(Args args) throws Exception {
        Sending sending = RUNNING.remove(args.need("name"));
        sending.stop = true;
        sending.thread.join();
        return sending.summary();
    }

    private String summary() {
        return "acked=" + acked + "\nfailed=" + failed + (firstError.isEmpty() ? "" : "\nerror=" + firstError);
    }

    /** A producer serves all commands that ask for the same settings: starting one takes longer than sending. */
    private static synchronized DefaultMQProducer producer(Args args) throws Exception {
        String compress = args.get("compress", "");
        String key = args.need("ns") + " " + args.get("group", "PeerProducer") + " " + compress + " "
            + args.get("namespace", "") + " " + args.get("namespaceV2", "") + " " + args.get("trace", "");
        DefaultMQProducer producer = PRODUCERS.get(key);
        if (producer == null) {
            producer = new DefaultMQProducer(args.get("group", "PeerProducer"));
            producer.setNamesrvAddr(args.need("ns"));
            producer.setInstanceName("peer-" + PRODUCERS.size());
            producer.setSendMsgTimeout(30_000);
            args.setNamespace(producer);
            args.setTrace(producer);
            if (!compress.isEmpty()) {
                producer.setCompressType(CompressionType.of(compress));
            }
            producer.start();
            PRODUCERS.put(key, producer);
        }
        return producer;
    }

    @Override
    public void run() {
        int from = args.number("from", 0);
        int end = from + args.number("count", 1);
        int step = args.get("mode", "sync").equals("batch") ? args.number("batch", 100) : 1;
        long pause = args.number("rate", 0) > 0 ? 1_000_000_000L / args.number("rate", 0) : 0;
        long next = System.nanoTime();
        for (int i = from; i < end && !stop; i += step) {
            send(i, Math.min(step, end - i));
            next += pause;
            sleepUntil(pause == 0 ? 0 : next);
        }
        window.acquireUninterruptibly(WINDOW);
        if (acks != null) {
            acks.close();
        }
        if (ids != null) {
            ids.close();
        }
    }

    private static void sleepUntil(long nanos) {
        long left = nanos == 0 ? 0 : nanos - System.nanoTime();
        if (left > 0) {
            try {
                Thread.sleep(left / 1_000_000, (int) (left % 1_000_000));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void send(int i, int n) {
        String mode = args.get("mode", "sync");
        try {
            if (mode.equals("async")) {
                window.acquireUninterruptibly();
                sendAsync(i);
            } else if (mode.equals("batch")) {
                List<Message> batch = new ArrayList<>();
                for (int k = 0; k < n; k++) {
                    batch.add(content.message(i + k));
                }
                done(i, n, producer.send(batch));
            } else if (mode.equals("oneway")) {
                producer.sendOneway(content.message(i));
                acked.incrementAndGet();
            } else {
                done(i, 1, producer.send(content.message(i)));
            }
        } catch (Exception e) {
            fail(n, e);
        }
    }

    private void sendAsync(int i) throws Exception {
        try {
            producer.send(content.message(i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    done(i, 1, result);
                    window.release();
                }

                @Override
                public void onException(Throwable e) {
                    fail(1, e);
                    window.release();
                }
            });
        } catch (Exception e) {
            window.release();
            throw e;
        }
    }

    private void done(int i, int n, SendResult result) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            fail(n, new IllegalStateException("status " + result.getSendStatus()));
            return;
        }
        acked.addAndGet(n);
        if (ids != null) {
            ids.println(result.getMsgId());
        }
        if (acks == null) {
            return;
        }
        synchronized (acks) {
            for (int k = 0; k < n; k++) {
                acks.println(i + k);
            }
            acks.flush();
        }
    }

    private void fail(int n, Throwable e) {
        failed.addAndGet(n);
        if (firstError.isEmpty()) {
            firstError = e.toString().replace('\n', ' ');
        }
    }
}
