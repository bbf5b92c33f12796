/* Peer: real Redisson clients on the other end of the interop tests, driven by lines on stdin, answered on stdout.
 *
 *     java -cp 'classes:lib/*' Peer redis://127.0.0.1:PORT
 *
 * Request   <who> <verb> [args]                      one line each, never quoted: names hold no blanks
 * Answer    <who> <verb> <answer> <began> <ended>    exactly one per request; us of CLOCK_MONOTONIC, which is what
 *                                                    System.nanoTime counts on Linux: comparable with the C side's
 * An exception is the answer "!<its class>", and its message stands behind the times.
 *
 * <who> is "-" for what concerns the peer itself, else "<client>.<thread>": a RedissonClient opened before and one of
 * its logical threads, a Java thread made when first named. Commands of one thread run in order; a thread that blocks
 * in lock() stops nobody else, so a wait is started, observed from outside and collected by its answer.
 *
 *     - open CLIENT [WATCHDOG_MS]     - close CLIENT (releases nothing)     - reset (closes all)     - version
 *     - uuid CLIENT                   - quit (as end of input)
 *     C.T lock NAME [LEASE_MS]        C.T trylock NAME [WAIT_MS [LEASE_MS]]   C.T unlock NAME
 *     C.T forceunlock NAME            C.T islocked NAME                       C.T ttl NAME
 *     C.T held NAME                   C.T heldby NAME THREAD_ID               C.T holds NAME
 *     C.T id                          the Java thread id: the hold's field is <uuid>:<id>
 *     C.T count NAME COUNTER TURNS STOP    see count() */
import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public final class Peer {
    private final String url;
    private final Map<String, RedissonClient> clients = new HashMap<>();    // main thread only
    private final Map<String, LogicalThread> threads = new HashMap<>();     // main thread only

    private Peer(String url) {
        this.url = url;
    }

    public static void main(String[] args) throws IOException {
        Peer peer = new Peer(args[0]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null && !line.equals("- quit"); line = in.readLine()) {
            peer.dispatch(line.split(" "));
        }
        System.exit(0);     // threads may still be blocked in lock(): their leases are left to run out
    }

    private void dispatch(String[] words) {
        String who = words[0];
        if (who.equals("-")) {
            answer(words, () -> control(words));
            return;
        }
        RedissonClient client = clients.get(who.substring(0, who.indexOf('.')));
        threads.computeIfAbsent(who, LogicalThread::new)
               .queue.add(() -> answer(words, () -> act(client, words)));
    }

    /* What concerns the peer itself. In the main thread. */
    private Object control(String[] words) {
        switch (words[1]) {
        case "open":
            clients.put(words[2], open(words.length > 3 ? Long.parseLong(words[3]) : 30000));
            return "ok";
        case "close":
            close(words[2]);
            return "ok";
        case "reset":
            new ArrayList<>(clients.keySet()).forEach(this::close);
            return "ok";
        case "uuid":
            return clients.get(words[2]).getId();
        case "version":
            return Redisson.class.getPackage().getImplementationVersion();
        default:
            throw new IllegalArgumentException(words[1]);
        }
    }

    private RedissonClient open(long watchdogMs) {
        Config config = new Config().setThreads(4).setNettyThreads(2).setLockWatchdogTimeout(watchdogMs);
        config.useSingleServer().setAddress(url).setConnectionMinimumIdleSize(1).setConnectionPoolSize(16)
              .setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(2);
        return Redisson.create(config);
    }

    /* Releases nothing: what its threads hold is left to its lease. Its threads end, also those that wait. */
    private void close(String name) {
        threads.entrySet().removeIf(entry -> {
            boolean gone = entry.getKey().startsWith(name + ".");
            if (gone) {
                entry.getValue().interrupt();
            }
            return gone;
        });
        clients.remove(name).shutdown(0, 2, TimeUnit.SECONDS);
    }

    /* What one logical thread does with its client. In that thread. */
    private Object act(RedissonClient client, String[] words) throws Exception {
        if (words[1].equals("id")) {
            return Thread.currentThread().getId();
        }
        RLock lock = client.getLock(words[2]);
        long first = words.length > 3 && !words[1].equals("count") ? Long.parseLong(words[3]) : -1;
        long second = words.length > 4 && !words[1].equals("count") ? Long.parseLong(words[4]) : -1;
        switch (words[1]) {
        case "lock":
            lock.lock(first, TimeUnit.MILLISECONDS);
            return "ok";
        case "trylock":
            return words.length == 3 ? lock.tryLock() : lock.tryLock(first, second, TimeUnit.MILLISECONDS);
        case "unlock":
            lock.unlock();
            return "ok";
        case "forceunlock":
            return lock.forceUnlock();
        case "islocked":
            return lock.isLocked();
        case "ttl":
            return lock.remainTimeToLive();
        case "held":
            return lock.isHeldByCurrentThread();
        case "heldby":
            return lock.isHeldByThread(first);
        case "holds":
            return lock.getHoldCount();
        case "count":
            return count(lock, words[0], words[3], words[4], words[5]);
        default:
            throw new IllegalArgumentException(words[1]);
        }
    }

    /* Until the key `stop` exists: under the lock, reads `counter`, writes it back one higher, and appends
     * "<who> <began> <ended>" (us) to the list `turns`, all by a plain connection of its own. Answers how often. */
    private long count(RLock lock, String who, String counter, String turns, String stop) throws IOException {
        long done = 0;
        try (Plain redis = new Plain(URI.create(url))) {
            while (redis.call("EXISTS", stop).equals("0")) {
                lock.lock();
                try {
                    long began = us();
                    String seen = redis.call("GET", counter);
                    redis.call("SET", counter, Long.toString(seen == null ? 1 : Long.parseLong(seen) + 1));
                    redis.call("RPUSH", turns, who + " " + began + " " + us());
                } finally {
                    lock.unlock();
                }
                done++;
            }
        }
        return done;
    }

    private interface Action {
        Object run() throws Exception;
    }

    private static void answer(String[] words, Action action) {
        long began = us();
        Object answer;
        String why = "";
        try {
            answer = action.run();
        } catch (Exception e) {
            answer = "!" + e.getClass().getSimpleName();
            why = " " + String.valueOf(e.getMessage()).replaceAll("\\s+", " ");
        }
        long ended = us();
        synchronized (System.out) {
            System.out.println(words[0] + " " + words[1] + " " + answer + " " + began + " " + ended + why);
            System.out.flush();
        }
    }

    private static long us() {
        return System.nanoTime() / 1000;
    }

    private static final class LogicalThread extends Thread {
        final LinkedBlockingQueue<Runnable> queue = new LinkedBlockingQueue<>();

        LogicalThread(String name) {
            super(name);
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            try {
                while (true) {
                    queue.take().run();
                }
            } catch (InterruptedException e) {
                // its client was closed
            }
        }
    }

    /* A connection without any Redisson: what the shared counter is read and written by. */
    private static final class Plain implements AutoCloseable {
        private final Socket socket;
        private final InputStream in;

        Plain(URI uri) throws IOException {
            socket = new Socket(uri.getHost(), uri.getPort());
            socket.setTcpNoDelay(true);
            in = new BufferedInputStream(socket.getInputStream());
        }

        String call(String... words) throws IOException {
            StringBuilder request = new StringBuilder("*" + words.length + "\r\n");
            for (String word : List.of(words)) {
                request.append("$").append(word.length()).append("\r\n").append(word).append("\r\n");
            }
            socket.getOutputStream().write(request.toString().getBytes(StandardCharsets.US_ASCII));
            String head = line();
            if (head.charAt(0) == '-') {
                throw new IOException(head);
            }
            if (head.charAt(0) != '$') {
                return head.substring(1);
            }
            return head.equals("$-1") ? null : line();
        }

        private String line() throws IOException {
            StringBuilder line = new StringBuilder();
            for (int c = in.read(); c != '\r'; c = in.read()) {
                if (c < 0) {
                    throw new IOException("connection closed by the server");
                }
                line.append((char) c);
            }
            in.read();      // '\n'
            return line.toString();
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }
    }
}
