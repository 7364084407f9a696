/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.OutputStreamWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * The Java side of the interop suite: one process that lives as long as the suite, since a JVM for every question would
 * cost more than the question. It listens on a port of its own and prints "ready PORT". Each connection carries one
 * command in one line; the answer is lines of text, the last one "ok" or "error ...".
 */
final class Peer {
    private Peer() {
    }

    public static void main(String[] argv) throws Exception {
        ServerSocket server = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
        System.out.println("ready " + server.getLocalPort());
        while (true) {
            Socket socket = server.accept();
            new Thread(() -> serve(socket), "command").start();
        }
    }

    private static void serve(Socket socket) {
        try (Socket s = socket;
            BufferedReader in = new BufferedReader(new InputStreamReader(s.getInputStream(), StandardCharsets.UTF_8));
            PrintWriter out = new PrintWriter(new OutputStreamWriter(s.getOutputStream(), StandardCharsets.UTF_8))) {
            String line = in.readLine();
            if (line != null) {
                answer(line.trim(), out);
            }
        } catch (Exception e) {
            e.printStackTrace();
        }
    }

    private static void answer(String line, PrintWriter out) {
        try {
            String text = run(line.split("\\s+"));
            if (!text.isEmpty()) {
                out.println(text.trim());
            }
            out.println("ok");
        } catch (Throwable e) {
            e.printStackTrace();
            out.println("error " + e.toString().replace('\n', ' '));
        }
    }

    private static String run(String[] words) throws Exception {
        if (words[0].equals("mqadmin")) {
            return Administration.mqadmin(Arrays.copyOfRange(words, 1, words.length));
        }
        Args args = new Args(words, 1);
        switch (words[0]) {
            case "produce":
                return Sending.produce(args);
            case "startProducer":
                return Sending.start(args);
            case "stopProducer":
                return Sending.stop(args);
            case "timed":
                return Timed.run(args);
            case "ask":
                return Requests.ask(args);
            case "startReplier":
                return Requests.startServer(args);
            case "stopReplier":
                return Requests.stopServer(args);
            case "transactions":
                return Transactions.run(args);
            case "consume":
                return Receiving.consume(args);
            case "litePull":
                return LitePull.run(args);
            case "startConsumer":
                return Receiving.start(args);
            case "waitConsumer":
                return Receiving.wait(args);
            case "stopConsumer":
                return Receiving.stop(args);
            case "queues":
                return Receiving.queues(args);
            case "waitBroker":
                return Administration.waitBroker(args);
            case "createTopic":
                return Administration.createTopic(args);
            case "awaitRoute":
                return Administration.awaitRoute(args);
            case "route":
                return Administration.route(args);
            case "offsets":
                return Administration.offsets(args);
            case "members":
                return Administration.members(args);
            case "subscriptions":
                return Administration.subscriptions(args);
            case "shares":
                return Administration.shares(args);
            case "holders":
                return Administration.holders(args);
            case "findKeys":
                return Administration.findKeys(args);
            case "viewMessage":
                return Administration.viewMessage(args);
            default:
                throw new IllegalArgumentException("no command " + words[0]);
        }
    }
}
