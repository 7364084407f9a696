/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import org.apache.rocketmq.common.message.Message;

/**
 * What message number i of a seed contains. The Go peer and content.py hold the same rules, so that every side can tell
 * what it must receive without having seen what was sent.
 */
final class Content {
    private final String topic;
    private final String seed;
    private final String kind;
    private final int delay;
    private final int[] sizes;
    private final String[] tags;

    Content(Args args) {
        topic = args.need("topic");
        seed = args.get("seed", "s");
        kind = args.get("kind", "text");
        delay = args.number("delay", 0);
        String[] words = args.get("sizes", args.get("size", "200")).split(",");
        sizes = new int[words.length];
        for (int i = 0; i < words.length; i++) {
            sizes[i] = Integer.parseInt(words[i]);
        }
        tags = args.get("tags", "Tag0,Tag1,Tag2,Tag3,Tag4").split(",");
    }

    Message message(int i) throws Exception {
        Message message = new Message(topic, tags[i % tags.length], "key-" + seed + "-" + i, body(i));
        message.setDelayTimeLevel(delay);
        message.putUserProperty("idx", Integer.toString(i));
        message.putUserProperty("p-uni", "\u00fcn\u00ef-" + i);
        return message;
    }

    /** Sizes take turns; the kind "mixed" is text in one round of sizes and random in the next. */
    private byte[] body(int i) throws Exception {
        int size = sizes[i % sizes.length];
        boolean random = kind.equals("random") || kind.equals("mixed") && i / sizes.length % 2 == 1;
        return random ? random(i, size) : text(i, size);
    }

    private byte[] text(int i, int size) {
        byte[] body = new byte[size];
        byte[] head = (seed + ":" + i + ":").getBytes(StandardCharsets.UTF_8);
        for (int at = 0; at < size; at++) {
            body[at] = at < head.length ? head[at] : (byte) ('a' + (i + at - head.length) % 26);
        }
        return body;
    }

    private byte[] random(int i, int size) throws Exception {
        byte[] body = new byte[size];
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (int at = 0, block = 0; at < size; at += 32, block++) {
            byte[] part = digest.digest((seed + ":" + i + ":" + block).getBytes(StandardCharsets.UTF_8));
            System.arraycopy(part, 0, body, at, Math.min(32, size - at));
        }
        return body;
    }

    /** What a receiver's report says of a message. */
    static String line(Message message) throws Exception {
        return message.getUserProperty("idx") + "\t" + sha1(message.getBody()) + "\t" + message.getTags() + "\t"
            + message.getKeys() + "\t" + message.getUserProperty("p-uni");
    }

    static String sha1(byte[] body) throws Exception {
        StringBuilder text = new StringBuilder(40);
        for (byte b : MessageDigest.getInstance("SHA-1").digest(body)) {
            text.append(Character.forDigit(b >> 4 & 15, 16)).append(Character.forDigit(b & 15, 16));
        }
        return text.toString();
    }
}
