/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.body.ClusterInfo;
import org.apache.rocketmq.remoting.protocol.body.Connection;
import org.apache.rocketmq.remoting.protocol.body.ConsumerConnection;
import org.apache.rocketmq.remoting.protocol.header.QueryConsumerOffsetRequestHeader;
import org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.route.QueueData;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** What an operator asks of a cluster, printed in a form that a shell reads. */
final class Administration {
    private static final Map<String, DefaultMQAdminExt> ADMINS = new HashMap<>();

    private Administration() {
    }

    private static synchronized DefaultMQAdminExt admin(Args args) throws Exception {
        String ns = args.need("ns");
        DefaultMQAdminExt admin = ADMINS.get(ns);
        if (admin == null) {
            admin = new DefaultMQAdminExt(10_000);
            admin.setNamesrvAddr(ns);
            admin.setInstanceName("peer-admin-" + ADMINS.size());
            admin.start();
            ADMINS.put(ns, admin);
        }
        return admin;
    }

    /** Waits until the name server lists the broker of that name. */
    static String waitBroker(Args args) throws Exception {
        String name = args.need("broker");
        Exception last = null;
        for (long end = deadline(args); System.currentTimeMillis() < end; Thread.sleep(100)) {
            try {
                ClusterInfo info = admin(args).examineBrokerClusterInfo();
                if (info.getBrokerAddrTable().containsKey(name)) {
                    return info.getBrokerAddrTable().get(name).getBrokerAddrs().toString();
                }
            } catch (Exception e) {
                last = e;
            }
        }
        throw new IllegalStateException("broker " + name + " is not known to the name server, last: " + last);
    }

    private static long deadline(Args args) {
        return System.currentTimeMillis() + args.number("timeout", 30) * 1000L;
    }

    /** Asks for each of the keys PREFIX0, PREFIX1, ...: how many find one message and no other, and the first that does not. */
    static String findKeys(Args args) throws Exception {
        DefaultMQAdminExt admin = admin(args);
        String topic = args.need("topic");
        AtomicInteger found = new AtomicInteger();
        AtomicReference<String> missed = new AtomicReference<>();
        ExecutorService threads = Executors.newFixedThreadPool(8);
        for (int i = 0; i < args.number("count", 1); i++) {
            String key = args.need("prefix") + i;
            threads.execute(() -> {
                String result;
                try {
                    List<MessageExt> list = admin.queryMessage(topic, key, 32, 0, Long.MAX_VALUE).getMessageList();
                    result = list.size() == 1 && key.equals(list.get(0).getKeys()) ? null : list.size() + " messages";
                } catch (Exception e) {
                    result = e.toString().replace('\n', ' ');
                }
                if (result == null) {
                    found.incrementAndGet();
                } else {
                    missed.compareAndSet(null, key + ": " + result);
                }
            });
        }
        threads.shutdown();
        threads.awaitTermination(args.number("timeout", 300), TimeUnit.SECONDS);
        return "found=" + found + (missed.get() == null ? "" : "\nmissed=" + missed);
    }

    /** Creates the topic on the named brokers (broker=a,b), or on every master, and waits until the name server gives its route. */
    static String createTopic(Args args) throws Exception {
        String topic = args.need("topic");
        int queues = args.number("queues", 8);
        String only = args.get("broker", "");
        List<String> names = Arrays.asList(only.split(","));
        int brokers = 0;
        for (BrokerData data : admin(args).examineBrokerClusterInfo().getBrokerAddrTable().values()) {
            if (only.isEmpty() || names.contains(data.getBrokerName())) {
                admin(args).createAndUpdateTopicConfig(data.getBrokerAddrs().get(MixAll.MASTER_ID),
                    new TopicConfig(topic, queues, queues));
                brokers++;
            }
        }
        return awaitRoute(args, topic, brokers);
    }

    static String awaitRoute(Args args) throws Exception {
        return awaitRoute(args, args.need("topic"), args.number("brokers", 1));
    }

    private static String awaitRoute(Args args, String topic, int brokers) throws Exception {
        Exception last = null;
        for (long end = deadline(args); System.currentTimeMillis() < end; Thread.sleep(50)) {
            try {
                if (admin(args).examineTopicRouteInfo(topic).getQueueDatas().size() == brokers) {
                    return "";
                }
            } catch (Exception e) {
                last = e;
            }
        }
        throw new IllegalStateException("no route of " + topic + " on " + brokers + " brokers, last: " + last);
    }

    static String route(Args args) throws Exception {
        TopicRouteData route = admin(args).examineTopicRouteInfo(args.need("topic"));
        TreeSet<String> lines = new TreeSet<>();
        for (QueueData queue : route.getQueueDatas()) {
            lines.add("queues " + queue.getBrokerName() + " " + queue.getReadQueueNums() + " "
                + queue.getWriteQueueNums() + " " + queue.getPerm());
        }
        for (BrokerData broker : route.getBrokerDatas()) {
            lines.add("broker " + broker.getBrokerName() + " " + new TreeMap<>(broker.getBrokerAddrs()));
        }
        return String.join("\n", lines);
    }

    /** Per queue: broker, queue id, min, max, committed (or - where the group has none). */
    static String offsets(Args args) throws Exception {
        String group = args.get("group", "");
        StringBuilder text = new StringBuilder();
        for (MessageQueue queue : queues(args)) {
            text.append(queue.getBrokerName()).append(' ').append(queue.getQueueId()).append(' ')
                .append(admin(args).minOffset(queue)).append(' ').append(admin(args).maxOffset(queue)).append(' ')
                .append(group.isEmpty() ? "-" : committed(args, group, queue)).append('\n');
        }
        return text.toString();
    }

    private static String committed(Args args, String group, MessageQueue queue) throws Exception {
        QueryConsumerOffsetRequestHeader header = new QueryConsumerOffsetRequestHeader();
        header.setTopic(queue.getTopic());
        header.setConsumerGroup(group);
        header.setQueueId(queue.getQueueId());
        header.setSetZeroIfNotFound(false);
        MQClientInstance instance = admin(args).getDefaultMQAdminExtImpl().getMqClientInstance();
        String address = instance.findBrokerAddressInPublish(queue.getBrokerName());
        try {
            return Long.toString(instance.getMQClientAPIImpl().queryConsumerOffset(address, header, 5000));
        } catch (MQBrokerException e) {
            if (e.getResponseCode() == ResponseCode.QUERY_NOT_FOUND) {
                return "-";
            }
            throw e;
        }
    }

    private static List<MessageQueue> queues(Args args) throws Exception {
        String topic = args.need("topic");
        List<MessageQueue> queues = new ArrayList<>();
        for (QueueData data : admin(args).examineTopicRouteInfo(topic).getQueueDatas()) {
            for (int i = 0; i < data.getReadQueueNums(); i++) {
                queues.add(new MessageQueue(topic, data.getBrokerName(), i));
            }
        }
        Collections.sort(queues);
        return queues;
    }

    static String members(Args args) throws Exception {
        TreeSet<String> lines = new TreeSet<>();
        for (Connection c : admin(args).examineConsumerConnectionInfo(args.need("group")).getConnectionSet()) {
            lines.add(c.getClientId() + " " + c.getLanguage() + " " + c.getVersion());
        }
        return String.join("\n", lines);
    }

    /** What the broker learned from heartbeats: topic, expression, tags and their hash codes. */
    static String subscriptions(Args args) throws Exception {
        ConsumerConnection connection = admin(args).examineConsumerConnectionInfo(args.need("group"));
        TreeSet<String> lines = new TreeSet<>();
        for (SubscriptionData data : connection.getSubscriptionTable().values()) {
            lines.add(data.getTopic() + " tags=" + new TreeSet<>(data.getTagsSet()) + " codes="
                + new TreeSet<>(data.getCodeSet()));
        }
        return String.join("\n", lines);
    }

    /** The share of each member of the group as Java's average allocation has it: "clientId 0,1,2". */
    static String shares(Args args) throws Exception {
        List<MessageQueue> queues = queues(args);
        TreeSet<String> ids = new TreeSet<>();
        for (Connection c : admin(args).examineConsumerConnectionInfo(args.need("group")).getConnectionSet()) {
            ids.add(c.getClientId());
        }
        StringBuilder text = new StringBuilder();
        for (String id : ids) {
            TreeSet<Integer> share = new TreeSet<>();
            for (MessageQueue queue : strategy(args).allocate(args.need("group"), id, queues, new ArrayList<>(ids))) {
                share.add(queue.getQueueId());
            }
            text.append(id).append(' ').append(share.toString().replaceAll("[\\[\\] ]", "")).append('\n');
        }
        return text.toString();
    }

    /** The queues of the topic that each member says it has: "clientId 0,1,2", as shares prints them. */
    static String holders(Args args) throws Exception {
        StringBuilder text = new StringBuilder();
        TreeSet<String> ids = new TreeSet<>();
        for (Connection c : admin(args).examineConsumerConnectionInfo(args.need("group")).getConnectionSet()) {
            ids.add(c.getClientId());
        }
        for (String id : ids) {
            TreeSet<Integer> held = new TreeSet<>();
            for (MessageQueue queue : admin(args).getConsumerRunningInfo(args.need("group"), id, false).getMqTable().keySet()) {
                if (queue.getTopic().equals(args.need("topic"))) {
                    held.add(queue.getQueueId());
                }
            }
            text.append(id).append(' ').append(held.toString().replaceAll("[\\[\\] ]", "")).append('\n');
        }
        return text.toString();
    }

    private static AllocateMessageQueueStrategy strategy(Args args) {
        return args.get("strategy", "AVG").equals("CONSISTENT_HASH")
            ? new AllocateMessageQueueConsistentHash() : new AllocateMessageQueueAveragely();
    }

    /** A message by its id, the long one of IPv6 included. */
    static String viewMessage(Args args) throws Exception {
        MessageExt message = admin(args).viewMessage(args.need("topic"), args.need("id"));
        return "storeHost=" + message.getStoreHost() + "\nbornHost=" + message.getBornHost() + "\nsha1="
            + Content.sha1(message.getBody());
    }

    private static final class NoHook implements RPCHook {
        @Override
        public void doBeforeRequest(String address, RemotingCommand request) {
        }

        @Override
        public void doAfterResponse(String address, RemotingCommand request, RemotingCommand response) {
        }
    }

    /** Runs a subcommand of mqadmin in this process; what it prints is the answer. */
    static synchronized String mqadmin(String[] words) throws Exception {
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        PrintStream out = System.out;
        PrintStream err = System.err;
        try (PrintStream capture = new PrintStream(text, true, "UTF-8")) {
            System.setOut(capture);
            System.setErr(capture);
            MQAdminStartup.main0(words, new NoHook());
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return text.toString("UTF-8");
    }
}
