"""Q1 to Q3: what does a lock over 3 or 5 masters cost beside one master, and beside redsync and node-redlock on as
many? What does a master cost that stands still?

Fixed: all masters are on this machine, on the CPUs of the servers; lease 30 s. `ours` and `redsync` have one master.
One operation: acquire and release, each answered by a majority. Figures at the server are the sums of all masters.
"""
from ..scenario import Scenario, Target, ratio

SCENARIOS = (
    Scenario(
        name="Q1", title="3 and 5 masters, 1 thread, own key; one operation = acquire + release", kind="own",
        base="ours", threads=1,
        peers=("ours", "ours-quorum-3", "ours-quorum-5", "ours-quorum-5-stopped", "redsync", "redsync-3", "redsync-5",
               "node-redlock-3", "node-redlock-5"),
        targets=(
            Target("acquire of ours-quorum-3 / ours", ratio("ours-quorum-3", "ours", "acquire_p50"), must=1.3,
                   at_most=True),
            Target("acquire of ours-quorum-5 / ours", ratio("ours-quorum-5", "ours", "acquire_p50"), must=1.3,
                   at_most=True),
            Target("ours-quorum-3 / redsync-3", ratio("ours-quorum-3", "redsync-3"), must=2.0),
            Target("ours-quorum-5 / redsync-5", ratio("ours-quorum-5", "redsync-5"), must=2.0),
            Target("ours-quorum-3 / node-redlock-3", ratio("ours-quorum-3", "node-redlock-3")),
            Target("ours-quorum-5 / node-redlock-5", ratio("ours-quorum-5", "node-redlock-5")),
            Target("ours-quorum-5-stopped / ours-quorum-5", ratio("ours-quorum-5-stopped", "ours-quorum-5"), must=0.9),
        )),
    Scenario(
        name="Q2", title="3 and 5 masters, 2 processes of 4 threads, one key", kind="shared", base="redsync-3",
        threads=4, processes=2,
        peers=("ours-quorum-3", "ours-quorum-5", "redsync-3", "redsync-5"),
        targets=(
            Target("ours-quorum-3 / redsync-3", ratio("ours-quorum-3", "redsync-3", "handoffs"), must=10),
            Target("ours-quorum-5 / redsync-5", ratio("ours-quorum-5", "redsync-5", "handoffs"), must=10),
        )),
    Scenario(
        name="Q3", title="3 and 5 masters, 4 processes of 1 thread, one key", kind="shared", base="redsync-3",
        threads=1, processes=4,
        peers=("ours-quorum-3", "ours-quorum-5", "redsync-3", "redsync-5"),
        targets=(
            Target("ours-quorum-3 / redsync-3", ratio("ours-quorum-3", "redsync-3", "handoffs"), must=10),
            Target("ours-quorum-5 / redsync-5", ratio("ours-quorum-5", "redsync-5", "handoffs"), must=10),
        )),
)
