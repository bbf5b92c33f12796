"""S1, S2: what does a permit cost beside Redisson's, uncontended and handed over between processes?

Fixed: one permit, so that exclusion can be checked (bench/page.h), and it is beside the plain lock; a permit with a
lease has 30 s. One operation: acquire and release, both answered by the server.
"""
from ..scenario import Scenario, Target, ratio

PEERS = ("ours", "ours-semaphore", "ours-permit", "redisson-semaphore", "redisson-permit")


def targets(metric, commands):
    """Each beside Redisson's of the same type, and beside the plain lock."""
    for kind in ("semaphore", "permit"):
        ours, theirs = "ours-" + kind, "redisson-" + kind
        yield Target("%s / %s" % (ours, theirs), ratio(ours, theirs, metric), must=4)
        yield Target("commands, %s / %s" % (ours, theirs), ratio(ours, theirs, commands), must=0.5, at_most=True)
        yield Target("%s / ours" % ours, ratio(ours, "ours", metric), must=0.9 if metric == "handoffs" else None)


SCENARIOS = (
    Scenario(
        name="S1", title="1 thread, own permit; one operation = acquire + release", kind="own", base="ours", threads=1,
        peers=PEERS, targets=tuple(targets("rate", "commands"))),
    Scenario(
        name="S2", title="4 processes x 1 thread, one permit; one operation = one acquisition", kind="shared",
        base="ours", threads=1, processes=4, peers=PEERS, targets=tuple(targets("handoffs", "commands_handoff"))),
)
