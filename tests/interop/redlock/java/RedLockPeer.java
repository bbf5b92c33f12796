import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** A peer of test_redlock.c: Redisson's RedLock over the masters whose addresses are the arguments (host:port). The
 *  commands are those of redsync/main.go; it cannot extend. */
final class RedLockPeer {
    private static RedissonClient connect(String address) {
        Config config = new Config();
        config.setThreads(1).setNettyThreads(1);
        config.useSingleServer().setAddress("redis://" + address).setConnectionPoolSize(2)
            .setConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(1)
            .setSubscriptionConnectionMinimumIdleSize(1);
        return Redisson.create(config);
    }

    @SuppressWarnings("deprecation")
    private static RLock make(RedissonClient[] clients, String name) {
        RLock[] locks = new RLock[clients.length];
        for (int i = 0; i < clients.length; i++) {
            locks[i] = clients[i].getLock(name);
        }
        return new RedissonRedLock(locks);
    }

    /** The first commands of a JVM take longer than a try waits. */
    private static void warmUp(RedissonClient[] clients) throws InterruptedException {
        RLock lock = make(clients, "t-warm-up");
        if (lock.tryLock(10, 10, TimeUnit.SECONDS)) {
            lock.unlock();
        }
    }

    private static boolean run(String[] words, RedissonClient[] clients, RLock[] lock) {
        try {
            switch (words[0]) {
                case "acquire":
                    lock[0] = make(clients, words[1]);
                    return lock[0].tryLock(600, Long.parseLong(words[2]), TimeUnit.MILLISECONDS);
                case "release":
                    lock[0].unlock();
                    return true;
                default:
                    return false;
            }
        } catch (Exception e) {
            return false;
        }
    }

    public static void main(String[] args) throws Exception {
        RedissonClient[] clients = new RedissonClient[args.length];
        for (int i = 0; i < args.length; i++) {
            clients[i] = connect(args[i]);
        }
        warmUp(clients);
        RLock[] lock = new RLock[1];
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            boolean ok = run(words, clients, lock);
            System.out.println(ok ? "ok" : words[0].equals("acquire") ? "busy" : "no");
        }
        System.exit(0);
    }
}
