import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * The driver of Redisson: the lines of bench/driver.h, locks by RLock with the defaults of a single server.
 * Threads are kept from round to round, as in a warm server.
 *
 * The variant redisson-fair has fair locks; redisson-semaphore and redisson-permit have one permit of RSemaphore and
 * of RPermitExpirableSemaphore, with a lease, or with -8 at the end eight; redisson-read, redisson-write and
 * redisson-rw have halves of RReadWriteLock, the last one writes one time in a hundred; redisson-latch is
 * RCountDownLatch, whose threads wait; redisson-multilock has five locks at once. --clients K: K clients with
 * separate connections, as if they were processes; threads are assigned to them in turn.
 */
public final class RedissonDriver {
    private static final int MULTILOCK_MEMBERS = 5;
    private static final String SHARED = "bench:one";

    private final List<RedissonClient> clients;
    private final String variant;
    private final long leaseMs;
    private final SharedPage page;
    private final int process;
    private final int permits;
    private final ExecutorService threads = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    });
    private final List<RLock> held = new ArrayList<>();
    private long rssBefore;

    private RedissonDriver(List<RedissonClient> clients, String variant, long leaseMs, SharedPage page, int process) {
        this.clients = clients;
        this.variant = variant;
        this.leaseMs = leaseMs;
        this.page = page;
        this.process = process;
        this.permits = variant.endsWith("-8") ? 8 : 1;
    }

    public static void main(String[] args) throws Exception {
        String variant = option(args, "--variant", "redisson");
        long leaseMs = Long.parseLong(option(args, "--lease-ms", "30000"));
        List<RedissonClient> clients = new ArrayList<>();
        for (int left = Integer.parseInt(option(args, "--clients", "1")); left > 0; left--) {
            Config config = new Config();
            config.useSingleServer().setAddress("redis://127.0.0.1:" + option(args, "--port", ""));
            config.setLockWatchdogTimeout(leaseMs);
            clients.add(Redisson.create(config));
        }
        String path = option(args, "--page", null);
        SharedPage page = path == null ? null : new SharedPage(Path.of(path));
        int process = Integer.parseInt(option(args, "--process", "0"));
        String version = RedissonClient.class.getPackage().getImplementationVersion();
        System.out.println("{\"ready\":true,\"version\":\"Redisson " + version + ", Java "
                + System.getProperty("java.version") + "\"}");
        new RedissonDriver(clients, variant, leaseMs, page, process).serve();
        Runtime.getRuntime().halt(0);
    }

    private static String option(String[] args, String name, String other) {
        for (int i = 0; i + 1 < args.length; i++) {
            if (args[i].equals(name)) {
                return args[i + 1];
            }
        }
        return other;
    }

    private void serve() throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null && !line.equals("quit"); line = input.readLine()) {
            String answer;
            try {
                answer = answer(line.trim().split(" "), input);
            } catch (Exception why) {
                answer = "{\"error\":\"" + why.toString().replaceAll("[\"\\\\\\p{Cntrl}]", "'") + "\"}";
            }
            System.out.println(answer);
        }
    }

    private String answer(String[] words, BufferedReader input) throws Exception {
        switch (words[0]) {
            case "round":
                return round(words[1], Double.parseDouble(words[2]), Integer.parseInt(words[3]), input);
            case "hold":
                return hold(Integer.parseInt(words[1]));
            case "drop":
                held.forEach(RLock::unlock);
                held.clear();
                return "{\"dropped\":true,\"error\":\"\"}";
            case "take":
                clients.get(0).getCountDownLatch(SHARED).trySetCount(1);
                return "{\"taken\":true,\"error\":\"\"}";
            case "give":
                long releasedNs = System.nanoTime();
                clients.get(0).getCountDownLatch(SHARED).countDown();
                return "{\"released_ns\":" + releasedNs + ",\"error\":\"\"}";
            case "stats":
                return "{\"rss\":" + rss() + ",\"rss_before\":" + rssBefore + ",\"rss_after\":" + rss() + "}";
            default:
                throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    private String round(String scenario, double seconds, int count, BufferedReader input) throws Exception {
        List<Worker> workers = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            workers.add(worker(scenario, i));
        }
        System.out.println("{\"ready\":true}");
        long startNs = Long.parseLong(input.readLine().trim().split(" ")[1]);
        long switches = switches();
        List<Future<?>> running = new ArrayList<>();
        for (Worker worker : workers) {
            worker.startNs = startNs;
            worker.endNs = startNs + (long) (seconds * 1e9);
            running.add(threads.submit(worker));
        }
        if (scenario.equals("wake")) {
            Worker.WAITING.acquire(count);
            System.out.println("{\"waiting\":" + count + "}");
        }
        for (Future<?> future : running) {
            future.get();
        }
        return Worker.result(workers, switches() - switches);
    }

    private Worker worker(String scenario, int index) {
        int client = index % clients.size();
        String own = "bench:own:" + process + ":" + index;
        long id = (process + client) * 1024L + index / clients.size() + 1;
        switch (scenario) {
            case "own":
                return new Worker(turn(client, own), Worker.Loop.OWN, null, 0, 1);
            case "nested":
                return new Worker(turn(client, own), Worker.Loop.NESTED, null, 0, 1);
            case "shared":
                return new Worker(turn(client, SHARED), Worker.Loop.SHARED, page, id, 1);
            case "permits":
                return new Worker(turn(client, SHARED), Worker.Loop.PERMITS, page, 0, permits);
            case "halves":
                long every = variant.equals("redisson-rw") ? 100 : 0;
                return new Worker(turn(client, SHARED), Worker.Loop.HALVES, page, id, every);
            case "wake":
                return new Worker(turn(client, SHARED), Worker.Loop.WAKE, null, 0, 1);
            default:
                throw new IllegalArgumentException("cannot run " + scenario);
        }
    }

    private Worker.Turn turn(int client, String name) {
        switch (variant) {
            case "redisson-semaphore", "redisson-semaphore-8":
                return new SemaphoreTurn(clients.get(client).getSemaphore(name), permits);
            case "redisson-permit", "redisson-permit-8":
                return new PermitTurn(clients.get(client).getPermitExpirableSemaphore(name), permits, leaseMs);
            case "redisson-read", "redisson-write", "redisson-rw":
                return new HalvesTurn(clients.get(client).getReadWriteLock(name), variant.equals("redisson-write"));
            case "redisson-latch":
                return new LatchTurn(clients.get(client).getCountDownLatch(name));
            case "redisson-multilock":
                RLock[] locks = new RLock[MULTILOCK_MEMBERS];
                for (int i = 0; i < locks.length; i++) {
                    locks[i] = clients.get(client).getLock(name + ":" + i);
                }
                return new LockTurn(clients.get(client).getMultiLock(locks));
            default:
                return new LockTurn(lock(client, name));
        }
    }

    private record LockTurn(RLock lock) implements Worker.Turn {
        @Override
        public void take() {
            lock.lock();
        }

        @Override
        public void give() {
            lock.unlock();
        }
    }

    private static final class HalvesTurn implements Worker.Turn {
        private final RLock reading;
        private final RLock writing;
        private RLock half;

        HalvesTurn(RReadWriteLock lock, boolean writes) {
            reading = lock.readLock();
            writing = lock.writeLock();
            choose(writes);
        }

        @Override
        public final void choose(boolean writes) {
            half = writes ? writing : reading;
        }

        @Override
        public void take() {
            half.lock();
        }

        @Override
        public void give() {
            half.unlock();
        }
    }

    private record LatchTurn(RCountDownLatch latch) implements Worker.Turn {
        @Override
        public void take() throws InterruptedException {
            latch.await();
        }

        @Override
        public void give() {
            throw new IllegalStateException("a latch is held by nobody");
        }
    }

    private record SemaphoreTurn(RSemaphore semaphore, int permits) implements Worker.Turn {
        SemaphoreTurn {
            semaphore.trySetPermits(permits);
        }

        @Override
        public void take() throws InterruptedException {
            semaphore.acquire();
        }

        @Override
        public void give() {
            semaphore.release();
        }
    }

    private static final class PermitTurn implements Worker.Turn {
        private final RPermitExpirableSemaphore permits;
        private final long leaseMs;
        private String id;

        PermitTurn(RPermitExpirableSemaphore permits, int number, long leaseMs) {
            this.permits = permits;
            this.leaseMs = leaseMs;
            permits.trySetPermits(number);
        }

        @Override
        public void take() throws InterruptedException {
            id = permits.acquire(leaseMs, TimeUnit.MILLISECONDS);
        }

        @Override
        public void give() {
            permits.release(id);
        }
    }

    private RLock lock(int client, String name) {
        return variant.equals("redisson-fair") ? clients.get(client).getFairLock(name)
                : clients.get(client).getLock(name);
    }

    private String hold(int count) throws IOException {
        RLock warm = lock(0, "bench:warm");
        warm.lock();
        warm.unlock();
        rssBefore = rss();
        long begin = System.nanoTime();
        for (int i = 0; i < count; i++) {
            RLock lock = lock(0, "bench:held:" + i);
            lock.lock();
            held.add(lock);
        }
        return "{\"held\":" + count + ",\"took_s\":" + (System.nanoTime() - begin) / 1e9 + ",\"error\":\"\"}";
    }

    private static long rss() throws IOException {
        return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * 4096;
    }

    /** Voluntary context switches of all threads that live. */
    private static long switches() throws IOException {
        long sum = 0;
        try (var tasks = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
            for (Path task : tasks) {
                for (String line : Files.readAllLines(task.resolve("status"))) {
                    if (line.startsWith("voluntary_ctxt_switches:")) {
                        sum += Long.parseLong(line.split("\\s+")[1]);
                    }
                }
            }
        }
        return sum;
    }
}
