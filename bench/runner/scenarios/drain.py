"""W6: how quickly does a lock reach the last of a thousand waiters, and what does a waiter cost Redis?

Fixed: 1,000 threads wait for one lock, which a separate process holds, until no commands are sent any more. Then it
releases, and each waiter acquires the lock once and holds it only for the check of exclusion (bench/page.h). The lease
is 30 s.
Measured: seconds from that release until the last waiter has released; commands and messages for each waiter, without
and with those for queueing; entries of the lock's queue while all wait.
"""
from ..scenario import Scenario, Target, figure, ratio

PEERS = ("floor-blpop", "ours", "ours-nopass", "ours-fair")


def entries_of_ours(summaries):
    if not summaries["ours"]["queued"]:
        raise KeyError("no queue")
    return summaries["ours"]["queued"]


FAIR = (
    Target("the same, ours-fair / ours-nopass", ratio("ours-fair", "ours-nopass", "drain_s"), 4, at_most=True),
    Target("commands per waiter, ours-fair", figure("ours-fair", "commands"), at_most=True, unit=""),
    Target("calls in scripts per waiter, ours-fair", figure("ours-fair", "inner"), at_most=True, unit=""),
)


def targets(entries, messages):
    return (
        Target("seconds until all have had it, ours", figure("ours", "drain_s"), 0.12, at_most=True, unit="s"),
        Target("the same, ours / floor-blpop", ratio("ours", "floor-blpop", "drain_s"), 1.7, at_most=True),
        Target("messages per waiter, ours", figure("ours", "messages"), messages, at_most=True, unit=""),
        Target("queue entries while all wait, ours", entries_of_ours, entries, at_most=True, unit=""),
        *FAIR,
    )


SCENARIOS = (
    Scenario(name="W6-10x100", title="1,000 waiters, 10 processes x 100 threads; one operation = one waiter served",
             kind="drain", base="floor-blpop", threads=100, processes=10, peers=PEERS, targets=targets(10, 1.01)),
    Scenario(name="W6-1x1000", title="1,000 waiters, 1 process x 1,000 threads; one operation = one waiter served",
             kind="drain", base="floor-blpop", threads=1000, processes=1, peers=PEERS, targets=targets(1, 0.1)),
)
