"""R1, R2, R3, R4: what does a half of a read/write lock cost, and what do readers cost that a process has many of?

Fixed: R1 and R2 as W1 and W2-64: a lock of its own for each thread. R3: 64 threads of a process read one lock, and
nobody writes. R4: 16 threads in each of 4 processes have one lock, and one in a hundred of their turns is to write.
Nothing is done while the lock is held; lease 30 s. One operation: acquire and release. The waits of writers are
measured apart. ours-...-nopass has local_passes off: readers of a process share no hold.
"""
from ..scenario import Scenario, Target, ratio


def of_half(half):
    """R1 and R2 of one half."""
    ours, theirs = "ours-" + half, "redisson-" + half
    for name, threads in (("R1-" + half, 1), ("R2-64-" + half, 64)):
        yield Scenario(
            name=name, title="%d thread%s, own locks, to %s; one operation = acquire + release"
            % (threads, "s" if threads > 1 else "", half), kind="own", base="ours", threads=threads,
            peers=("ours", ours, theirs), targets=(Target("%s / %s" % (ours, theirs), ratio(ours, theirs), must=1.0),))


SCENARIOS = (
    *of_half("read"), *of_half("write"),
    Scenario(
        name="R3", title="64 threads read one lock; one operation = acquire + release", kind="halves",
        base="ours-read-nopass", threads=64, peers=("ours-read", "ours-read-nopass", "redisson-read"),
        targets=(
            Target("ours-read / redisson-read", ratio("ours-read", "redisson-read"), must=20),
            Target("ours-read / ours-read-nopass", ratio("ours-read", "ours-read-nopass"), must=10),
        )),
    Scenario(
        name="R4", title="4 processes x 16 threads, one lock, 1 % writes; one operation = acquire + release",
        kind="halves", base="ours-rw-nopass", threads=16, processes=4,
        peers=("ours-rw", "ours-rw-nopass", "redisson-rw"),
        targets=(
            Target("ours-rw / redisson-rw", ratio("ours-rw", "redisson-rw"), must=1.0),
            Target("p99 of a writer's wait, ours-rw / ours-rw-nopass",
                   ratio("ours-rw", "ours-rw-nopass", "handoff_p99"), must=1.0, at_most=True),
        )),
)
