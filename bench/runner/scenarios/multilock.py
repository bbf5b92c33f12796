"""M1: what do five locks at once cost, beside one, and beside Redisson's?

Fixed: one thread, five locks of its own, all free, on one server; lease 30 s. One operation: acquire and release of all
five, all answered by the server. Redisson's RedissonMultiLock acquires them one after the other. With --rtt the number
of round trips is what counts.
"""
from ..scenario import Scenario, Target, ratio

SCENARIOS = (
    Scenario(
        name="M1", title="1 thread, 5 own locks; one operation = acquire + release of all", kind="own", base="ours",
        threads=1, peers=("ours", "ours-multilock", "redisson-multilock"),
        targets=(
            Target("ours-multilock / ours", ratio("ours-multilock", "ours", "rate"), aim=0.5),
            Target("ours-multilock / redisson-multilock", ratio("ours-multilock", "redisson-multilock", "rate"),
                   must=4),
        )),
)
