import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;

/** One thread of a round: the loops of bench/driver.c. */
final class Worker implements Runnable {
    enum Loop { OWN, SHARED, PERMITS, HALVES, WAKE, NESTED }

    /** A lock, or a permit. */
    interface Turn {
        void take() throws InterruptedException;

        void give();

        /** Of a lock with two halves: which one the next turn is of. */
        default void choose(boolean writes) {
        }
    }

    private static final int NESTED_BATCH = 100;

    /** Of the loop WAKE: released by each worker just before it waits. */
    static final Semaphore WAITING = new Semaphore(0);

    private final Turn turn;
    private final Loop loop;
    private final SharedPage page;
    private final long id;
    private final long permits;
    private final Hist acquire = new Hist();
    private final Hist pair = new Hist();
    private final Hist handoff = new Hist();
    private long ops;
    private long finishedNs;

    long startNs;
    long endNs;

    /**
     * SHARED, PERMITS, HALVES: with the page; id: of SHARED and HALVES; permits: how many there are. HALVES: one in so
     * many turns is to write, 0: none.
     */
    Worker(Turn turn, Loop loop, SharedPage page, long id, long permits) {
        this.turn = turn;
        this.loop = loop;
        this.page = page;
        this.id = id;
        this.permits = permits;
    }

    @Override
    public void run() {
        for (long left = startNs - System.nanoTime(); left > 0; left = startNs - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
        try {
            switch (loop) {
                case OWN -> own();
                case SHARED -> shared();
                case PERMITS -> permits();
                case HALVES -> halves();
                case WAKE -> wake();
                case NESTED -> nested();
            }
        } catch (InterruptedException why) {
            throw new IllegalStateException(why);
        }
        finishedNs = System.nanoTime();
    }

    private void own() throws InterruptedException {
        for (long begin = System.nanoTime(); begin < endNs; ops++) {
            turn.take();
            long got = System.nanoTime();
            turn.give();
            long done = System.nanoTime();
            acquire.add(got - begin);
            pair.add(done - begin);
            begin = done;
        }
    }

    private void shared() throws InterruptedException {
        for (long begin = System.nanoTime(); begin < endNs; ops++) {
            long ticket = page.draw();
            turn.take();
            long got = System.nanoTime();
            long took = page.enter(id, ticket, got);
            if (took >= 0) {
                handoff.add(took);
            }
            acquire.add(got - begin);
            page.leave(id, System.nanoTime());
            turn.give();
            begin = System.nanoTime();
        }
    }

    private void permits() throws InterruptedException {
        for (long begin = System.nanoTime(); begin < endNs; ops++) {
            turn.take();
            page.enterOneOf(permits);
            acquire.add(System.nanoTime() - begin);
            page.leaveOneOf();
            turn.give();
            long done = System.nanoTime();
            pair.add(done - begin);
            begin = done;
        }
    }

    private void halves() throws InterruptedException {
        long next = id * 7;
        for (long begin = System.nanoTime(); begin < endNs; ops++) {
            boolean writes = permits > 0 && next++ % permits == 0;
            turn.choose(writes);
            turn.take();
            page.enterHalf(writes);
            long waited = System.nanoTime() - begin;
            acquire.add(waited);
            if (writes) {
                handoff.add(waited);
            }
            page.leaveHalf(writes);
            turn.give();
            long done = System.nanoTime();
            pair.add(done - begin);
            begin = done;
        }
    }

    private void wake() throws InterruptedException {
        WAITING.release();
        turn.take();
        ops++;
    }

    private void nested() throws InterruptedException {
        turn.take();
        for (long begin = System.nanoTime(); begin < endNs; ops += NESTED_BATCH) {
            for (int i = 0; i < NESTED_BATCH; i++) {
                turn.take();
                turn.give();
            }
            long done = System.nanoTime();
            pair.add((done - begin) / NESTED_BATCH);
            begin = done;
        }
        turn.give();
    }

    static String result(List<Worker> workers, long switches) {
        Hist acquire = new Hist();
        Hist pair = new Hist();
        Hist handoff = new Hist();
        long ops = 0;
        long finishedNs = 0;
        for (Worker worker : workers) {
            acquire.merge(worker.acquire);
            pair.merge(worker.pair);
            handoff.merge(worker.handoff);
            ops += worker.ops;
            finishedNs = Math.max(finishedNs, worker.finishedNs);
        }
        String each = workers.stream().map(worker -> Long.toString(worker.ops)).collect(Collectors.joining(","));
        return "{\"per_thread\":[" + each + "],\"ops\":" + ops + ",\"finished_ns\":" + finishedNs + ",\"switches\":"
                + switches + ",\"error\":\"\",\"acquire\":" + acquire + ",\"pair\":" + pair + ",\"handoff\":" + handoff
                + "}";
    }
}
