import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * The words of bench/page.h in a shared file: only the holder writes, with opaque (not atomic) increments, but for
 * violations, tickets and those inside.
 */
final class SharedPage {
    private static final int OWNER = 0;
    private static final int COUNTER = 8;
    private static final int VIOLATIONS = 16;
    private static final int RELEASED_NS = 24;
    private static final int LAST = 32;
    private static final int RUN = 40;
    private static final int LONGEST_RUN = 48;
    private static final int TICKETS = 56;
    private static final int NEWEST = 64;
    private static final int OVERTAKEN = 72;
    private static final int INSIDE = 80;
    private static final long WRITER = 1L << 32;
    private static final int TURNS = 128;
    private static final int PROCESSES = 64;
    private static final long THREADS = 1024;
    private static final VarHandle WORD = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

    private final ByteBuffer words;

    SharedPage(Path path) throws IOException {
        try (FileChannel file = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            words = file.map(FileChannel.MapMode.READ_WRITE, 0, 4096);
        }
    }

    long draw() {
        return (long) WORD.getAndAdd(words, TICKETS, 1L) + 1;
    }

    /** How long the hand-over took; -1: there was none. */
    long enter(long id, long ticket, long nowNs) {
        if (get(OWNER) != 0) {
            violated();
        }
        set(OWNER, id);
        set(COUNTER, get(COUNTER) + 1);
        long last = get(LAST);
        set(RUN, last == id ? get(RUN) + 1 : 1);
        set(LONGEST_RUN, Math.max(get(LONGEST_RUN), get(RUN)));
        if (ticket < get(NEWEST)) {
            set(OVERTAKEN, get(OVERTAKEN) + 1);
        } else {
            set(NEWEST, ticket);
        }
        long process = (id - 1) / THREADS;
        if (last == 0 || (last - 1) / THREADS != process) {
            int turns = TURNS + (int) (process % PROCESSES) * 8;
            set(turns, get(turns) + 1);
        }
        return last == id || last == 0 ? -1 : nowNs - get(RELEASED_NS);
    }

    void leave(long id, long nowNs) {
        if (get(OWNER) != id) {
            violated();
        }
        set(LAST, id);
        set(RELEASED_NS, nowNs);
        set(OWNER, 0);
    }

    void enterOneOf(long permits) {
        if ((long) WORD.getAndAdd(words, INSIDE, 1L) >= permits) {
            violated();
        }
    }

    void leaveOneOf() {
        WORD.getAndAdd(words, INSIDE, -1L);
    }

    void enterHalf(boolean writes) {
        long before = (long) WORD.getAndAdd(words, INSIDE, writes ? WRITER : 1L);
        if (writes ? before > 0 : before >= WRITER) {
            violated();
        }
    }

    void leaveHalf(boolean writes) {
        WORD.getAndAdd(words, INSIDE, writes ? -WRITER : -1L);
    }

    private void violated() {
        WORD.getAndAdd(words, VIOLATIONS, 1L);
    }

    private long get(int word) {
        return (long) WORD.getOpaque(words, word);
    }

    private void set(int word, long value) {
        WORD.setOpaque(words, word, value);
    }
}
