"""W3, W4: how quickly does a lock pass from holder to holder, within a process and between processes?

Fixed: every thread of every process contends for one lock all the time and holds it only for the check of exclusion
(bench/page.h); lease 30 s.
One operation: one acquisition and its release. Compared are hand-overs: acquisitions after another holder's hold. A
peer whose thread acquires the lock again and again has many acquisitions and few hand-overs. An acquisition was
overtaken when a thread that called later got the lock before.
"""
from ..scenario import Scenario, Target, figure, ratio

PEERS = ("floor", "floor-blpop", "ours", "ours-fair", "redisson", "redisson-fair", "redispy", "redispy-1ms", "rslock")
W4_PEERS = (*PEERS, "redsync")


def least(metric):
    """The fewest acquisitions of a process, as a share of the most."""
    return lambda summaries: min(summaries["ours"][metric]) / max(summaries["ours"][metric])


HAND_OVERS = "hand-overs, ours / floor-blpop"

SCENARIOS = (
    Scenario(
        name="W3", title="1 process x 8 threads, one key; one operation = one acquisition", kind="shared",
        base="floor-blpop", threads=8, peers=PEERS,
        targets=(
            Target(HAND_OVERS, ratio("ours", "floor-blpop", "handoffs"), 4, 10),
            Target("min/max per thread, ours", least("per_thread"), 0.9, unit=""),
            Target("acquisitions overtaken, ours", figure("ours", "overtaken"), 0.01, at_most=True, unit=""),
            Target("commands per acquisition, ours", figure("ours", "commands"), 0.1, at_most=True, unit=""),
        )),
    Scenario(
        name="W4-4x1", title="4 processes x 1 thread, one key; one operation = one acquisition", kind="shared",
        base="floor-blpop", threads=1, processes=4, peers=W4_PEERS,
        targets=(
            Target(HAND_OVERS, ratio("ours", "floor-blpop", "handoffs"), 0.7, 0.95),
            Target("hand-over p50, ours / floor-blpop", ratio("ours", "floor-blpop", "handoff_p50"), 1.4, 1.1,
                   at_most=True),
            Target("wait p50, ours / floor-blpop", ratio("ours", "floor-blpop", "acquire_p50"), at_most=True),
            Target("commands per hand-over, ours", figure("ours", "commands_handoff"), 2.1, at_most=True, unit=""),
            Target("hand-overs, ours / redisson", ratio("ours", "redisson", "handoffs"), 4),
            Target("min/max per process, ours", least("per_process"), unit=""),
            Target("hand-overs, ours-fair / floor-blpop", ratio("ours-fair", "floor-blpop", "handoffs"), 0.8),
            Target("hand-over p50, ours-fair / floor-blpop", ratio("ours-fair", "floor-blpop", "handoff_p50"), 1.3,
                   at_most=True),
            Target("commands per hand-over, ours-fair", figure("ours-fair", "commands_handoff"), 2.1, at_most=True,
                   unit=""),
            Target("hand-overs, ours-fair / redisson-fair", ratio("ours-fair", "redisson-fair", "handoffs")),
        )),
    Scenario(
        name="W4-4x4", title="4 processes x 4 threads, one key; one operation = one acquisition", kind="shared",
        base="floor-blpop", threads=4, processes=4, peers=W4_PEERS,
        targets=(
            Target(HAND_OVERS, ratio("ours", "floor-blpop", "handoffs"), 4, 8),
            Target("wait p50, ours / floor-blpop", ratio("ours", "floor-blpop", "acquire_p50"), at_most=True),
            Target("commands per hand-over, ours", figure("ours", "commands_handoff"), at_most=True, unit=""),
            Target("min/max per process, ours", least("per_process"), 0.8, unit=""),
        )),
)
