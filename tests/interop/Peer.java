/* Peer: real Redisson clients on the other end of the interop tests.
 *
 *     java -cp 'classes:lib/*' Peer COMMAND [ARGS]
 *
 * Runs COMMAND (the tests) and ends with its exit code. To them it offers a Unix socket, whose path they find in
 * HASPLOCK_PEER. One JVM serves a whole suite; each connection is a session of its own, with clients and threads that
 * nobody else sees and that end with it. Lines go both ways:
 *
 *     request   <who> <verb> [args]                      never quoted: names hold no blanks
 *     answer    <who> <verb> <answer> <began> <ended>    exactly one per request; us of CLOCK_MONOTONIC, which is what
 *                                                        System.nanoTime counts on Linux: comparable with the C side's
 *
 * An exception is the answer "!<its class>", and its message stands behind the times.
 *
 * <who> is "-" for the session itself, else "<client>.<thread>": a RedissonClient opened before and one of its logical
 * threads, a Java thread made when first named. Commands of one thread run in order; a thread that blocks in lock()
 * stops nobody else, so a wait is started, observed from outside and collected by its answer.
 *
 *     - open CLIENT REDIS_URL [WATCHDOG_MS]     - close CLIENT (releases nothing)     - uuid CLIENT     - version
 *                                     several URLs, with "," between: nodes of a Redis Cluster
 *     - parked C.T                    whether it sleeps until a message wakes it: its lock was busy when it looked last
 *     C.T lock NAME [LEASE_MS]        C.T trylock NAME [WAIT_MS [LEASE_MS]]   C.T unlock NAME
 *     C.T forceunlock NAME            C.T islocked NAME                       C.T ttl NAME
 *     C.T held NAME                   C.T heldby NAME THREAD_ID               C.T holds NAME
 *     C.T id                          the Java thread id: the hold's field is <uuid>:<id>
 *     C.T fairlock NAME ...           the same of a fair lock, like all verbs above and the next; spinlock: of a spin
 *                                     lock; singlelock, singlefairlock: of one that is not reentrant (4.4 and later);
 *                                     multilock: NAME has several, with "+" between; readlock, writelock: the halves of
 *                                     a read/write lock
 *     C.T count NAME REDIS_URL COUNTER TURNS STOP [NOTE]      see count()
 *     C.T look NAME REDIS_URL COUNTER STOP            see look()
 *     C.T fencedlock NAME             lockAndGetToken: the token
 *     C.T token NAME                  getToken
 *     C.T fencedcount NAME REDIS_URL TOKENS STOP     see fencedCount()
 *     C.T semaset NAME N              trySetPermits; semaacquire, sematry, semarelease NAME N, semafree NAME
 *     C.T semashare NAME REDIS_URL INSIDE STOP       see share()
 *     C.T latch NAME set N            trySetCount; without "set N": getCount
 *     C.T latch NAME down             C.T latch NAME wait [WAIT_MS]           C.T latch NAME delete */
import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.net.StandardProtocolFamily;
import java.net.URI;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;

public final class Peer {
    private final SocketChannel socket;
    private final LinkedBlockingQueue<String> answers = new LinkedBlockingQueue<>();
    private final Map<String, RedissonClient> clients = new HashMap<>();    // session's thread only
    private final Map<String, LogicalThread> threads = new HashMap<>();     // session's thread only

    private Peer(SocketChannel socket) {
        this.socket = socket;
    }

    public static void main(String[] command) throws IOException, InterruptedException {
        Path dir = Files.createTempDirectory("hasplock-peer-");
        Path path = dir.resolve("socket");
        int code;
        try (ServerSocketChannel door = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            door.bind(UnixDomainSocketAddress.of(path));
            Thread doorman = new Thread(() -> serve(door), "doorman");
            doorman.setDaemon(true);
            doorman.start();
            ProcessBuilder tests = new ProcessBuilder(command).inheritIO();
            tests.environment().put("HASPLOCK_PEER", path.toString());
            code = tests.start().waitFor();
        } finally {
            Files.deleteIfExists(path);
            Files.delete(dir);
        }
        Runtime.getRuntime().halt(code);    // sessions that their tests left behind are not waited for
    }

    private static void serve(ServerSocketChannel door) {
        try {
            while (true) {
                SocketChannel socket = door.accept();
                new Thread(() -> new Peer(socket).session(), "session").start();
            }
        } catch (IOException e) {
            // main closed the door
        }
    }

    private void session() {
        Thread writer = new Thread(this::write, "writer");
        writer.start();
        try (BufferedReader in = new BufferedReader(Channels.newReader(socket, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                dispatch(line.split(" "));
            }
        } catch (IOException e) {
            // the test was killed
        }
        writer.interrupt();
        new ArrayList<>(clients.keySet()).forEach(this::close);
    }

    private void dispatch(String[] words) {
        String who = words[0];
        if (who.equals("-")) {
            answer(words, () -> control(words));
            return;
        }
        RedissonClient client = clients.get(who.substring(0, who.indexOf('.')));
        threads.computeIfAbsent(who, LogicalThread::new).queue.add(() -> answer(words, () -> act(client, words)));
    }

    /* What concerns the session itself. In its thread. */
    private Object control(String[] words) {
        switch (words[1]) {
        case "open":
            clients.put(words[2], open(words[3], words.length > 4 ? Long.parseLong(words[4]) : 30000));
            return "ok";
        case "close":
            close(words[2]);
            return "ok";
        case "uuid":
            return clients.get(words[2]).getId();
        case "parked":
            return threads.get(words[2]).isParked();
        case "version":
            return Redisson.class.getPackage().getImplementationVersion();
        default:
            throw new IllegalArgumentException(words[1]);
        }
    }

    private static RedissonClient open(String url, long watchdogMs) {
        Config config = new Config().setThreads(4).setNettyThreads(2).setLockWatchdogTimeout(watchdogMs);
        if (url.contains(",")) {
            config.useClusterServers().addNodeAddress(url.split(",")).setReadMode(ReadMode.MASTER)
                  .setMasterConnectionMinimumIdleSize(1).setMasterConnectionPoolSize(16)
                  .setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(2);
            return Redisson.create(config);
        }
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
    private static Object act(RedissonClient client, String[] words) throws Exception {
        if (words[1].equals("id")) {
            return Thread.currentThread().getId();
        }
        if (words[1].startsWith("sema")) {
            return words[1].equals("semashare")
                ? share(client.getSemaphore(words[2]), words[0], URI.create(words[3]), words[4], words[5])
                : sema(client.getSemaphore(words[2]), words[1].substring(4), words);
        }
        if (words[1].startsWith("perm")) {
            return permits(client.getPermitExpirableSemaphore(words[2]), words[1].substring(4), words);
        }
        if (words[1].equals("latch")) {
            return latch(client.getCountDownLatch(words[2]), words);
        }
        String kind = kindOf(words[1]);
        RLock lock = lockOf(client, kind, words[2]);
        switch (words[1].substring(kind.length())) {
        case "lock":
            lock.lock(number(words, 3), TimeUnit.MILLISECONDS);
            return "ok";
        case "trylock":
            return words.length == 3 ? lock.tryLock()
                                     : lock.tryLock(number(words, 3), number(words, 4), TimeUnit.MILLISECONDS);
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
            return lock.isHeldByThread(number(words, 3));
        case "holds":
            return lock.getHoldCount();
        case "count":
            return count(lock, words[0], URI.create(words[3]), words[4], words[5], words[6],
                    words.length > 7 ? words[7] : null);
        case "look":
            return look(lock, URI.create(words[3]), words[4], words[5]);
        case "fencedlock":
            return client.getFencedLock(words[2]).lockAndGetToken();
        case "token":
            return client.getFencedLock(words[2]).getToken();
        case "fencedcount":
            return fencedCount(client.getFencedLock(words[2]), words[0], URI.create(words[3]), words[4], words[5]);
        default:
            throw new IllegalArgumentException(words[1]);
        }
    }

    private static Object sema(RSemaphore semaphore, String verb, String[] words) throws InterruptedException {
        int n = words.length > 3 ? Integer.parseInt(words[3]) : 0;
        switch (verb) {
        case "set":
            return semaphore.trySetPermits(n);
        case "acquire":
            semaphore.acquire(n);
            return "ok";
        case "try":
            return semaphore.tryAcquire(n);
        case "release":
            semaphore.release(n);
            return "ok";
        case "free":
            return semaphore.availablePermits();
        default:
            throw new IllegalArgumentException(verb);
        }
    }

    private static Object permits(RPermitExpirableSemaphore permits, String verb, String[] words)
            throws InterruptedException {
        switch (verb) {
        case "set":
            return permits.trySetPermits(Integer.parseInt(words[3]));
        case "acquire":
            return permits.acquire(number(words, 3), TimeUnit.MILLISECONDS);
        case "try":
            return permits.tryAcquire(0, number(words, 3), TimeUnit.MILLISECONDS);
        case "pass": // takes one, and gives it back at once
            return permits.tryRelease(permits.acquire(number(words, 3), TimeUnit.MILLISECONDS));
        case "release":
            return permits.tryRelease(words[3]);
        case "extend":
            return permits.updateLeaseTime(words[3], number(words, 4), TimeUnit.MILLISECONDS);
        case "counts":
            return permits.availablePermits() + "/" + permits.acquiredPermits() + "/" + permits.getPermits();
        default:
            throw new IllegalArgumentException(verb);
        }
    }

    private static Object latch(RCountDownLatch latch, String[] words) throws InterruptedException {
        switch (words.length > 3 ? words[3] : "") {
        case "set":
            return latch.trySetCount(number(words, 4));
        case "down":
            latch.countDown();
            return "ok";
        case "wait":
            if (words.length > 4) {
                return latch.await(number(words, 4), TimeUnit.MILLISECONDS);
            }
            latch.await();
            return "ok";
        case "delete":
            return latch.delete();
        default:
            return latch.getCount();
        }
    }

    private static String kindOf(String verb) {
        return List.of("singlefair", "single", "spin", "fair", "multi", "read", "write", "").stream()
                   .filter(verb::startsWith).findFirst().get();
    }

    private static RLock lockOf(RedissonClient client, String kind, String name) throws ReflectiveOperationException {
        switch (kind) {
        case "singlefair":
            return made(client, "getNonReentrantFairLock", name);
        case "single":
            return made(client, "getNonReentrantLock", name);
        case "spin":
            return client.getSpinLock(name);
        case "fair":
            return client.getFairLock(name);
        case "read":
            return client.getReadWriteLock(name).readLock();
        case "write":
            return client.getReadWriteLock(name).writeLock();
        case "multi": // the names, with "+" between
            return client.getMultiLock(Stream.of(name.split("[+]")).map(client::getLock).toArray(RLock[]::new));
        default:
            return client.getLock(name);
        }
    }

    /* By name: an older Redisson compiles without it. */
    private static RLock made(RedissonClient client, String method, String name) throws ReflectiveOperationException {
        return (RLock) RedissonClient.class.getMethod(method, String.class).invoke(client, name);
    }

    private static long number(String[] words, int i) {
        return i < words.length ? Long.parseLong(words[i]) : -1;    // Redisson: the watchdog's lease
    }

    /* Until the key `stop` exists: under the lock, reads `counter`, writes it back one higher, and appends
     * "<who> <began> <ended>" (us) to the list `turns`, all by a plain connection of its own; before, it runs the
     * script whose SHA-1 is `note`, if not null. Answers how often. */
    private static long count(RLock lock, String who, URI url, String counter, String turns, String stop, String note)
            throws IOException {
        long done = 0;
        try (Plain redis = new Plain(url)) {
            while (redis.call("EXISTS", stop).equals("0")) {
                lock.lock();
                try {
                    long began = us();
                    if (note != null) {
                        redis.call("EVALSHA", note, "0");
                    }
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

    /* Until the key `stop` exists: has a permit, and counts itself in the number `inside` meanwhile, and in
     * "<inside>:<who>". Answers "<times>:<us of the longest wait>:<most inside>". */
    private static String share(RSemaphore semaphore, String who, URI url, String inside, String stop)
            throws IOException, InterruptedException {
        long done = 0;
        long longest = 0;
        long most = 0;
        try (Plain redis = new Plain(url)) {
            while (redis.call("EXISTS", stop).equals("0")) {
                long began = us();
                semaphore.acquire();
                longest = Math.max(longest, us() - began);
                most = Math.max(most, Long.parseLong(redis.call("INCR", inside)));
                redis.call("INCR", inside + ":" + who);
                redis.call("DECR", inside);
                semaphore.release();
                done++;
            }
        }
        return done + ":" + longest + ":" + most;
    }

    /* Until the key `stop` exists: under the lock, reads `counter` twice. Answers "<times>:<times it differed>". */
    private static String look(RLock lock, URI url, String counter, String stop) throws IOException {
        long done = 0;
        long wrong = 0;
        try (Plain redis = new Plain(url)) {
            while (redis.call("EXISTS", stop).equals("0")) {
                lock.lock();
                try {
                    String first = String.valueOf(redis.call("GET", counter));
                    wrong += first.equals(String.valueOf(redis.call("GET", counter))) ? 0 : 1;
                } finally {
                    lock.unlock();
                }
                done++;
            }
        }
        return done + ":" + wrong;
    }

    /* Until the key `stop` exists: appends "<who> <token>" to the list `tokens` under the lock. Answers how often. */
    private static long fencedCount(RFencedLock lock, String who, URI url, String tokens, String stop)
            throws IOException {
        long done = 0;
        try (Plain redis = new Plain(url)) {
            while (redis.call("EXISTS", stop).equals("0")) {
                long token = lock.lockAndGetToken();
                try {
                    redis.call("RPUSH", tokens, who + " " + token);
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

    private void answer(String[] words, Action action) {
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
        answers.add(words[0] + " " + words[1] + " " + answer + " " + began + " " + ended + why + "\n");
    }

    /* In a thread of its own: a logical thread that is interrupted while it writes would close the socket. */
    private void write() {
        try {
            while (true) {
                ByteBuffer bytes = ByteBuffer.wrap(answers.take().getBytes(StandardCharsets.UTF_8));
                while (bytes.hasRemaining()) {
                    socket.write(bytes);
                }
            }
        } catch (IOException | InterruptedException e) {
            // the test is gone: session() sees that too
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

        /* Redisson's waiters sleep at a semaphore. Elsewhere they wait for a reply. */
        boolean isParked() {
            return (getState() == State.WAITING || getState() == State.TIMED_WAITING) &&
                Stream.of(getStackTrace()).anyMatch(at -> at.getClassName().equals("java.util.concurrent.Semaphore"));
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
