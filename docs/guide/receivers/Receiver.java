// A webhook receiver that checks signatures. The JDK alone; Java 17 or newer.
//
//     DULY_WEBHOOK_SECRETS=whsec_… java Receiver.java [PORT [LEDGER]]
//
// `verify` is what to copy. `receive` shows what to answer. `closeOrder` stands for your own work.

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public final class Receiver {
    static final long TOLERANCE_S = 5 * 60; // how far webhook-timestamp may be from our clock
    static final int BODY_BYTES_MAX = 1 << 20;

    /** The delivery is not from Duly, or was changed, or is too old. */
    static final class WrongSignature extends Exception {
        WrongSignature(String why) {
            super(why);
        }
    }

    /** It can never be handled, however often it is sent. */
    static final class Never extends Exception {
        Never(String why) {
            super(why);
        }
    }

    /** It cannot be handled at present. */
    static final class NotNow extends Exception {
        final int retryAfterS;

        NotNow(int retryAfterS) {
            super("come back later");
            this.retryAfterS = retryAfterS;
        }
    }

    /** The bytes of a secret: `whsec_` and base64. */
    static byte[] keyOf(String secret) {
        if (!secret.startsWith("whsec_")) {
            throw new IllegalArgumentException("a secret begins with whsec_");
        }
        return Base64.getDecoder().decode(secret.substring("whsec_".length()));
    }

    /**
     * Returns the delivery id if one of the signatures was made with one of the keys. `body` is the
     * bytes exactly as they came.
     */
    static String verify(List<byte[]> keys, Headers headers, byte[] body, long nowS)
            throws WrongSignature, GeneralSecurityException {
        String id = headers.getFirst("webhook-id");
        String timestamp = headers.getFirst("webhook-timestamp");
        String signatures = headers.getFirst("webhook-signature");
        if (id == null || timestamp == null || signatures == null) {
            throw new WrongSignature(
                    "webhook-id, webhook-timestamp or webhook-signature is missing");
        }
        if (!timestamp.matches("[0-9]{1,12}")) {
            throw new WrongSignature("webhook-timestamp is not a number of seconds");
        }
        if (Math.abs(nowS - Long.parseLong(timestamp)) > TOLERANCE_S) {
            throw new WrongSignature("webhook-timestamp is too far from this machine's clock");
        }
        List<byte[]> expected = new ArrayList<>();
        for (byte[] key : keys) {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            mac.update((id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8));
            expected.add(mac.doFinal(body));
        }
        for (String signature : signatures.split(" ")) {
            if (!signature.startsWith("v1,")) continue;
            byte[] given;
            try {
                given = Base64.getDecoder().decode(signature.substring("v1,".length()));
            } catch (IllegalArgumentException notBase64) {
                continue;
            }
            for (byte[] made : expected) {
                // isEqual takes as long for a good beginning as for a bad one.
                if (MessageDigest.isEqual(made, given)) return id;
            }
        }
        throw new WrongSignature("no signature was made with a secret that is known here");
    }

    /**
     * Orders, and the ledger that says what was done for which delivery. A line of the ledger is
     * the change and the memory of it in one, so there is never one without the other; in a service
     * both belong into one transaction of its database.
     */
    static final class Shop {
        private static final Pattern ORDER =
                Pattern.compile("\\{\\s*\"order\"\\s*:\\s*([0-9]{1,18})\\s*}");
        private final Map<Long, String> orders = new HashMap<>(Map.of(1L, "unpaid", 2L, "paid"));
        private final Set<String> known = new HashSet<>();
        private final FileChannel file;

        Shop(Path path) throws IOException {
            file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            String text = Files.readString(path, StandardCharsets.ISO_8859_1);
            // A last line without its end was being written when the process died.
            int end = text.lastIndexOf('\n') + 1;
            file.truncate(end);
            for (String line : text.substring(0, end).lines().toList()) {
                String[] words = line.split(" ");
                apply(words[0], Long.parseLong(words[1]), words[2]);
            }
        }

        private void apply(String id, long order, String state) {
            known.add(id);
            orders.put(order, state);
        }

        /** Does the work once for each delivery id; a second attempt waits for the first. */
        synchronized String handleOnce(String id, byte[] body) throws Never, NotNow, IOException {
            if (known.contains(id)) return "known already";
            long order = orderIn(body);
            if (Files.exists(Path.of("maintenance"))) throw new NotNow(30);
            String before = orders.getOrDefault(order, "unknown");
            String after = before.equals("unpaid") ? "closed" : before;
            byte[] line = (id + " " + order + " " + after + "\n").getBytes(StandardCharsets.UTF_8);
            file.write(ByteBuffer.wrap(line));
            file.force(false);
            apply(id, order, after);
            return "order " + order + (before.equals("unpaid") ? " closed" : " left alone");
        }

        /** The JDK has no JSON reader; a service uses the one that it has. */
        private static long orderIn(byte[] body) throws Never {
            Matcher order = ORDER.matcher(new String(body, StandardCharsets.UTF_8).trim());
            if (!order.matches()) throw new Never("the payload names no order");
            return Long.parseLong(order.group(1));
        }
    }

    static void receive(List<byte[]> keys, Shop shop, HttpExchange exchange) throws IOException {
        byte[] body = exchange.getRequestBody().readNBytes(BODY_BYTES_MAX + 1);
        if (body.length > BODY_BYTES_MAX) {
            exchange.getResponseHeaders().set("connection", "close");
            answer(exchange, 413, "the body is longer than 1 MiB", "-");
            return;
        }
        String id = "-";
        try {
            id = verify(keys, exchange.getRequestHeaders(), body, Instant.now().getEpochSecond());
            answer(exchange, 200, shop.handleOnce(id, body), id);
        } catch (WrongSignature wrong) {
            answer(exchange, 401, wrong.getMessage(), id);
        } catch (Never never) {
            answer(exchange, 410, never.getMessage(), id);
        } catch (NotNow busy) {
            exchange.getResponseHeaders().set("retry-after", String.valueOf(busy.retryAfterS));
            answer(exchange, 503, busy.getMessage(), id);
        } catch (Exception error) { // a fault of ours: Duly sends it again
            answer(exchange, 500, error.getClass().getSimpleName(), id);
        }
    }

    static void answer(HttpExchange exchange, int status, String text, String id)
            throws IOException {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("content-type", "text/plain; charset=utf-8");
        // The server closes a connection that was idle for 30 s; Duly does so a second earlier.
        exchange.getResponseHeaders().set("keep-alive", "timeout=30");
        exchange.sendResponseHeaders(status, body.length);
        try (var out = exchange.getResponseBody()) {
            out.write(body);
        }
        System.out.println(status + " " + id + " " + text);
    }

    public static void main(String[] args) throws IOException {
        List<byte[]> keys = new ArrayList<>();
        for (String secret : System.getenv().getOrDefault("DULY_WEBHOOK_SECRETS", "").split(",")) {
            if (!secret.isEmpty()) keys.add(keyOf(secret));
        }
        if (keys.isEmpty()) {
            System.err.println(
                    "set DULY_WEBHOOK_SECRETS to one secret, or to two with a comma between");
            System.exit(1);
        }
        int port = args.length > 0 ? Integer.parseInt(args[0]) : 4000;
        Shop shop = new Shop(Path.of(args.length > 1 ? args[1] : "receiver.ledger"));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", exchange -> receive(keys, shop, exchange));
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.start();
        System.out.println("receiving on http://127.0.0.1:" + server.getAddress().getPort() + "/");
    }
}
