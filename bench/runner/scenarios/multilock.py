"""M1: what do five locks at once cost, beside one, and beside Redisson's?

Fixed: one thread, five locks of its own, all free, on one server; lease 30 s. One operation: acquire and release of all
five, all answered by the server. Redisson's RedissonMultiLock acquires them one after the other. With --rtt the number
of round trips is what counts.

M1-held: how soon do contenders go on after somebody held the last lock for long?

Fixed: six processes of one thread, the same three locks, one of which a separate process holds alone for 2.5 s.
Measured: pairs a second before, and in each quarter of a second after the release. The rate is back when it is half of
that before.
"""
from ..scenario import Scenario, Target, figure, ratio

CONTENDED = ("ours-multilock-3", "ours-multilock-3-async")

SCENARIOS = (
    Scenario(
        name="M1", title="1 thread, 5 own locks; one operation = acquire + release of all", kind="own", base="ours",
        threads=1, peers=("ours", "ours-multilock", "redisson-multilock"),
        targets=(
            Target("ours-multilock / ours", ratio("ours-multilock", "ours", "rate"), aim=0.5),
            Target("ours-multilock / redisson-multilock", ratio("ours-multilock", "redisson-multilock", "rate"),
                   must=4),
        )),
    Scenario(
        name="M1-held", title="6 processes, the same 3 locks; somebody holds the last one for 2.5 s", seconds=1.0,
        kind="interrupted", base="ours-multilock-3", processes=6, peers=CONTENDED, targets=tuple(
            Target("until the rate is back, " + peer, figure(peer, "back_s_max"), must=1, at_most=True, unit="s")
            for peer in CONTENDED)),
)
