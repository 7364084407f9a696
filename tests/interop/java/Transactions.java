/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A transactional producer whose messages say by their tag what becomes of them: Commit and Rollback at once, LateCommit and LateRollback when
 * the broker asks for the second time.
 */
final class Transactions implements TransactionListener {
    private final Set<String> askedOnce = ConcurrentHashMap.newKeySet();
    private final Set<String> answered = ConcurrentHashMap.newKeySet();

    private Transactions() {
    }

    /** Sends count messages; with wait=SECONDS it stays until all late ones have been answered. */
    static String run(Args args) throws Exception {
        Transactions listener = new Transactions();
        TransactionMQProducer producer = new TransactionMQProducer(args.need("group"));
        producer.setNamesrvAddr(args.need("ns"));
        producer.setInstanceName("transactions-" + System.nanoTime());
        producer.setSendMsgTimeout(30_000);
        producer.setTransactionListener(listener);
        producer.start();
        try {
            return listener.send(producer, new Content(args), args);
        } finally {
            producer.shutdown();
        }
    }

    private String send(TransactionMQProducer producer, Content content, Args args) throws Exception {
        int count = args.number("count", 1);
        int late = 0;
        for (int i = 0; i < count; i++) {
            Message message = content.message(i);
            TransactionSendResult result = producer.sendMessageInTransaction(message, null);
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                throw new IllegalStateException("message " + i + ": " + result);
            }
            late += message.getTags().startsWith("Late") ? 1 : 0;
        }
        long end = System.nanoTime() + args.number("wait", 0) * 1_000_000_000L;
        while (answered.size() < late && System.nanoTime() < end) {
            Thread.sleep(20);
        }
        return "late=" + late + "\nanswered=" + answered.size();
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
        switch (message.getTags()) {
            case "Commit":
                return LocalTransactionState.COMMIT_MESSAGE;
            case "Rollback":
                return LocalTransactionState.ROLLBACK_MESSAGE;
            default:
                return LocalTransactionState.UNKNOW;
        }
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        if (askedOnce.add(message.getTransactionId())) {
            return LocalTransactionState.UNKNOW;
        }
        answered.add(message.getTransactionId());
        return message.getTags().endsWith("Commit") ? LocalTransactionState.COMMIT_MESSAGE
            : LocalTransactionState.ROLLBACK_MESSAGE;
    }
}
