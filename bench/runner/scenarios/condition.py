"""C1, C2: what does it cost to wake one waiter of a condition, and to wake a thousand?

C1. Fixed: two processes of one thread take turns, by one lock and one condition. Each holds the lock in its turn, which
is only the check of exclusion (bench/page.h), signals, and waits: that gives the lock up. Lease 30 s. One operation:
one signal, whose waiter holds the lock again.
Measured: from just before the signal until the waiter holds the lock, beside hand-overs of a bare token and of a lock.
Between two turns are three answers, each of which is waited for: of the signal, of the enrolment of the one that
signalled, and of its release. A bare token needs one.

C2. Fixed: 1,000 threads in four processes wait at one condition, until no commands are sent any more. Then a separate
process acquires the lock, broadcasts, and releases. Each waiter holds the lock for the check of exclusion.
Measured: seconds from that acquire until the last waiter has released, beside 1,000 that wait for the token or the lock
itself; commands and messages for each waiter, without and with those for coming to wait.

Redisson has no condition: newCondition of its locks throws.
"""
from ..scenario import Scenario, Target, figure, ratio

SCENARIOS = (
    Scenario(
        name="C1", title="2 processes x 1 thread take turns by a condition; one operation = one signal and its wait",
        kind="shared", base="floor-blpop", threads=1, processes=2, peers=("floor-blpop", "ours", "ours-condition"),
        targets=(
            Target("hand-overs, ours-condition / floor-blpop", ratio("ours-condition", "floor-blpop", "handoffs"),
                   aim=0.25),
            Target("hand-over p50, ours-condition / floor-blpop",
                   ratio("ours-condition", "floor-blpop", "handoff_p50"), aim=4, at_most=True),
            Target("hand-overs, ours-condition / ours", ratio("ours-condition", "ours", "handoffs")),
            Target("commands per hand-over, ours-condition", figure("ours-condition", "commands_handoff"),
                   at_most=True, unit=""),
        )),
    Scenario(
        name="C2", title="1,000 waiters at a condition, 4 processes x 250 threads; one operation = one waiter served",
        kind="drain", base="floor-blpop", threads=250, processes=4, peers=("floor-blpop", "ours", "ours-condition-all"),
        targets=(
            Target("seconds until all have had the lock, ours-condition-all / floor-blpop",
                   ratio("ours-condition-all", "floor-blpop", "drain_s"), aim=4, at_most=True),
            Target("the same, ours-condition-all / ours", ratio("ours-condition-all", "ours", "drain_s"),
                   at_most=True),
            Target("commands per waiter, ours-condition-all", figure("ours-condition-all", "commands"), at_most=True,
                   unit=""),
            Target("the same with coming to wait", figure("ours-condition-all", "commands_all"), at_most=True, unit=""),
            Target("messages per waiter, ours-condition-all", figure("ours-condition-all", "messages"), at_most=True,
                   unit=""),
        )),
)
