"""W1, W2: what does an uncontended lock cost, for one thread and for many?

Fixed: each thread has a lock of its own and does nothing while it holds it; one process; lease 30 s.
One operation: acquire and release, both answered by the server (ours-relasync does not wait for the release).
"""
from ..scenario import Scenario, Target, figure, ratio

SCENARIOS = (
    Scenario(
        name="W1", title="1 thread, own key; one operation = acquire + release", kind="own", base="floor",
        threads=1, seconds=1.5,
        peers=("floor", "floor-spin", "floor-hash", "floor-hash-spin", "ours", "ours-nospin", "ours-relasync",
               "redisson", "redispy", "rslock", "redsync"),
        targets=(
            Target("ours-nospin / floor-hash", ratio("ours-nospin", "floor-hash"), must=1.0),
            Target("ours / floor", ratio("ours", "floor"), must=1.8, aim=2.0),
            Target("ours-relasync / ours", ratio("ours-relasync", "ours"), aim=1.6),
        )),
    Scenario(
        name="W2-8", title="8 threads, own keys; one operation = acquire + release", kind="own", base="floor",
        threads=8,
        peers=("floor", "floor-hash", "ours", "ours-nospin", "redisson", "redispy", "rslock", "redsync"),
        targets=(
            Target("ours / floor", ratio("ours", "floor"), must=1.0, aim=1.15),
            Target("ours / floor-hash", ratio("ours", "floor-hash"), must=1.5),
            Target("connections of ours", figure("ours", "connections"), must=1, at_most=True, unit=""),
        )),
    Scenario(
        name="W2-64", title="64 threads, own keys; one operation = acquire + release", kind="own", base="floor",
        threads=64,
        peers=("floor", "floor-hash", "ours", "ours-nospin", "redisson", "redispy", "rslock", "redsync"),
        targets=(
            Target("ours / floor", ratio("ours", "floor"), must=1.35, aim=1.7),
            Target("server CPU per pair, ours / floor", ratio("ours", "floor", "server_us"), must=0.5, at_most=True),
        )),
)
