"""L1: how quickly does a latch wake a thousand waiters in four processes, and what does a waiter cost Redis?

Fixed: 1,000 threads wait for one latch of count 1, until no commands are sent any more. Then a separate process counts
down.
Measured: seconds from that count down until the last waiter has returned, beside one bare message: to a connection of
each waiter, and to one of each process, which wakes its waiters.
"""
from ..scenario import Scenario, Target, figure, ratio

PEERS = ("floor-message", "floor-broadcast", "ours-latch", "redisson-latch")

SCENARIOS = (
    Scenario(
        name="L1", title="1,000 waiters for a latch, 4 processes x 250 threads; one operation = one waiter woken",
        kind="wake", base="floor-broadcast", threads=250, processes=4, peers=PEERS, targets=(
            Target("seconds until all are awake, ours-latch / floor-message",
                   ratio("ours-latch", "floor-message", "drain_s"), must=2, at_most=True),
            Target("the same, ours-latch / floor-broadcast", ratio("ours-latch", "floor-broadcast", "drain_s"),
                   aim=2, at_most=True),
            Target("the same, redisson-latch / ours-latch", ratio("redisson-latch", "ours-latch", "drain_s"), must=4),
            Target("commands with queueing, ours-latch / redisson-latch",
                   ratio("ours-latch", "redisson-latch", "commands_all"), must=0.5, at_most=True),
            Target("messages, ours-latch", figure("ours-latch", "messages"), at_most=True, unit=""),
        )),
)
