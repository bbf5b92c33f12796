"""W3, W4: how quickly does a lock pass from holder to holder, within a process and between processes?

Fixed: every thread of every process wants the same lock all the time and holds it only for the check of exclusion
(bench/page.h); lease 30 s.
One operation: one acquisition and its release. Compared are hand-overs: acquisitions after somebody else's hold. A peer
whose thread takes the lock again and again has many acquisitions and few hand-overs.
"""
from ..scenario import Scenario, Target, ratio

PEERS = ("floor", "floor-blpop", "ours", "redisson", "redispy", "redispy-1ms", "rslock")


def least_of_processes(summaries):
    return min(summaries["ours"]["per_process"]) / max(summaries["ours"]["per_process"])


def least_of_threads(summaries):
    return min(summaries["ours"]["per_thread"]) / max(summaries["ours"]["per_thread"])


def p50_ratio(summaries):
    return summaries["ours"]["handoff_p50"] / summaries["floor-blpop"]["handoff_p50"]


SCENARIOS = (
    Scenario(
        name="W3", title="1 process x 8 threads, one key; one operation = one acquisition", kind="shared",
        base="floor-blpop", threads=8, peers=PEERS,
        targets=(
            Target("hand-overs, ours / floor-blpop", ratio("ours", "floor-blpop", "handoffs"), 4, 10, later=True),
            Target("min/max per thread, ours", least_of_threads, 0.9, later=True, unit=""),
            Target("commands per acquisition, ours", lambda s: s["ours"]["commands"], 0.1, at_most=True, later=True,
                   unit=""),
        )),
    Scenario(
        name="W4-4x1", title="4 processes x 1 thread, one key; one operation = one acquisition", kind="shared",
        base="floor-blpop", threads=1, processes=4, peers=PEERS,
        targets=(
            Target("hand-overs, ours / floor-blpop", ratio("ours", "floor-blpop", "handoffs"), 0.7, 0.95, later=True),
            Target("hand-over p50, ours / floor-blpop", p50_ratio, 1.4, 1.1, at_most=True, later=True),
            Target("commands per acquisition, ours", lambda s: s["ours"]["commands"], 2.1, at_most=True, later=True,
                   unit=""),
            Target("hand-overs, ours / redisson", ratio("ours", "redisson", "handoffs"), 4, later=True),
        )),
    Scenario(
        name="W4-4x4", title="4 processes x 4 threads, one key; one operation = one acquisition", kind="shared",
        base="floor-blpop", threads=4, processes=4, peers=PEERS,
        targets=(
            Target("hand-overs, ours / floor-blpop", ratio("ours", "floor-blpop", "handoffs"), 4, 8, later=True),
            Target("min/max per process, ours", least_of_processes, 0.8, later=True, unit=""),
        )),
)
