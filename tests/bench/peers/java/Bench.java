/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** The Java client under the same load as "rmq bench", for "make bench": same options, same JSON line. */
final class Bench {
    private final Map<String, String> options = new HashMap<>();
    private final int count;
    private final int warmup;
    private final int size;
    private final int batch;
    private final int threads;
    private final AtomicInteger errors = new AtomicInteger();
    private DefaultMQProducer producer;
    private long wallFrom;
    private long cpuFrom;

    private Bench(String[] argv) {
        for (int i = 1; i + 1 < argv.length; i += 2) {
            options.put(argv[i].replaceFirst("^-+", ""), argv[i + 1]);
        }
        count = number("count", 100_000);
        warmup = number("warmup", 20_000);
        size = number("size", 1024);
        batch = number("batch", 1);
        threads = number("threads", 16);
    }

    private String get(String key, String otherwise) {
        return options.getOrDefault(key, otherwise);
    }

    private int number(String key, int otherwise) {
        return Integer.parseInt(get(key, Integer.toString(otherwise)));
    }

    public static void main(String[] argv) throws Exception {
        if (argv.length == 0 || argv.length % 2 == 0 || !argv[0].matches("produce|consume")) {
            System.err.println("Bench produce|consume -n NAMESRV -t TOPIC [-g GROUP] [--mode sync|async|oneway] [--count N]"
                + " [--warmup N] [--size N] [--threads N] [--window N]");
            System.exit(2);
        }
        Bench bench = new Bench(argv);
        boolean good = argv[0].equals("produce") ? bench.produce() : bench.consume();
        System.exit(good ? 0 : 1);
    }

    private static long cpuNanos() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private void begin() {
        errors.set(0);
        cpuFrom = cpuNanos();
        wallFrom = System.nanoTime();
    }

    private boolean print(String what, long[] nanos) throws Exception {
        double wall = (System.nanoTime() - wallFrom) / 1e9;
        double cpu = (cpuNanos() - cpuFrom) / 1e3 / count;
        String rss = "0";
        for (String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
            rss = line.startsWith("VmHWM:") ? line.replaceAll("[^0-9]", "") : rss;
        }
        Arrays.sort(nanos);
        System.out.printf(Locale.ROOT, "{\"peer\":\"java\",\"what\":\"%s\",\"count\":%d,\"size\":%d,\"wall_s\":%.6f,"
            + "\"msgs_per_s\":%.1f,\"cpu_us_per_msg\":%.3f,\"max_rss_kb\":%s,\"errors\":%d,\"p50_us\":%d,\"p99_us\":%d,"
            + "\"p999_us\":%d}%n", what, count, size, wall, count / wall, cpu, rss, errors.get(), at(nanos, 0.5),
            at(nanos, 0.99), at(nanos, 0.999));
        return errors.get() == 0;
    }

    private static long at(long[] nanos, double quantile) {
        return nanos.length == 0 ? 0 : nanos[(int) (quantile * (nanos.length - 1))] / 1000;
    }

    private boolean produce() throws Exception {
        producer = new DefaultMQProducer(get("g", "javabench"));
        producer.setNamesrvAddr(get("n", "127.0.0.1:9876"));
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.start();
        String mode = get("mode", "sync");
        send(mode, warmup);
        begin();
        long[] nanos = send(mode, count);
        return print("produce-" + mode, nanos);
    }

    private long[] send(String mode, int n) throws Exception {
        switch (mode) {
            case "sync":
                return sync(n);
            case "async":
                return async(n);
            default:
                return oneway(n);
        }
    }

    private Message message() {
        return new Message(get("t", ""), new byte[size]);
    }

    /** What one send takes: a message, or a batch. */
    private void sendWaiting() throws Exception {
        if (batch == 1) {
            producer.send(message());
            return;
        }
        List<Message> list = new ArrayList<>(batch);
        for (int i = 0; i < batch; i++) {
            list.add(message());
        }
        producer.send(list);
    }

    private long[] sync(int messages) throws Exception {
        int n = messages / batch;
        long[] nanos = new long[n];
        AtomicInteger next = new AtomicInteger();
        Thread[] workers = new Thread[threads];
        for (int t = 0; t < threads; t++) {
            workers[t] = new Thread(() -> {
                for (int i = next.getAndIncrement(); i < n; i = next.getAndIncrement()) {
                    long from = System.nanoTime();
                    try {
                        sendWaiting();
                    } catch (Exception e) {
                        errors.incrementAndGet();
                    }
                    nanos[i] = System.nanoTime() - from;
                }
            });
            workers[t].start();
        }
        for (Thread worker : workers) {
            worker.join();
        }
        return nanos;
    }

    private long[] async(int n) throws Exception {
        long[] nanos = new long[n];
        int size = number("window", 1000);
        Semaphore window = new Semaphore(size);
        for (int i = 0; i < n; i++) {
            window.acquire();
            int at = i;
            long from = System.nanoTime();
            producer.send(message(), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    nanos[at] = System.nanoTime() - from;
                    window.release();
                }

                @Override
                public void onException(Throwable e) {
                    errors.incrementAndGet();
                    window.release();
                }
            });
        }
        window.acquire(size);
        return nanos;
    }

    private long[] oneway(int n) throws Exception {
        long[] nanos = new long[n];
        for (int i = 0; i < n; i++) {
            long from = System.nanoTime();
            producer.sendOneway(message());
            nanos[i] = System.nanoTime() - from;
        }
        return nanos;
    }

    private boolean consume() throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(get("g", "javabench-" + System.currentTimeMillis()));
        consumer.setNamesrvAddr(get("n", "127.0.0.1:9876"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMax(Math.max(threads, 20));
        consumer.setConsumeThreadMin(threads);
        consumer.subscribe(get("t", ""), "*");
        AtomicLong got = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long after = got.addAndGet(messages.size());
            long before = after - messages.size();
            if (before <= warmup && warmup < after) {
                begin();
            }
            if (before < warmup + count && warmup + count <= after) {
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        if (!done.await(number("timeout", 120), TimeUnit.SECONDS)) {
            System.err.println("received " + got + " of " + (warmup + count));
            return false;
        }
        return print("consume", new long[0]);
    }
}
