"""S1, S2, S3: what does a permit cost beside Redisson's, uncontended and handed over between processes?

Fixed: S1 and S2 have one permit, so that exclusion can be checked (bench/page.h), and it is beside the plain lock; S3
has eight, for 16 threads. A permit with a lease has 30 s. One operation: acquire and release, both answered by the
server.
"""
from ..scenario import Scenario, Target, ratio

EIGHT = ("ours", "ours-semaphore-8", "ours-permit-8", "redisson-semaphore-8", "redisson-permit-8")
PEERS = ("ours", "ours-semaphore", "ours-permit", "redisson-semaphore", "redisson-permit")


def targets(metric, commands, kinds=("semaphore", "permit"), beside_lock=0.9):
    """Each beside Redisson's of the same type, and beside the plain lock."""
    for kind in kinds:
        ours, theirs = "ours-" + kind, "redisson-" + kind
        yield Target("%s / %s" % (ours, theirs), ratio(ours, theirs, metric), must=4)
        yield Target("commands, %s / %s" % (ours, theirs), ratio(ours, theirs, commands), must=0.5, at_most=True)
        yield Target("%s / ours" % ours, ratio(ours, "ours", metric), must=beside_lock)


SCENARIOS = (
    Scenario(
        name="S1", title="1 thread, own permit; one operation = acquire + release", kind="own", base="ours", threads=1,
        peers=PEERS, targets=tuple(targets("rate", "commands", beside_lock=None))),
    Scenario(
        name="S2", title="4 processes x 1 thread, one permit; one operation = one acquisition", kind="shared",
        base="ours", threads=1, processes=4, peers=PEERS, targets=tuple(targets("handoffs", "commands_handoff"))),
    Scenario(
        name="S3", title="4 processes x 4 threads, eight permits; one operation = one acquisition", kind="permits",
        base="ours", threads=4, processes=4, peers=EIGHT,
        targets=tuple(targets("rate", "commands", ("semaphore-8", "permit-8")))),
)
