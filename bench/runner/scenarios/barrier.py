"""B1, B2: how quickly do all parties of a barrier pass when the last one has arrived?

Fixed: 1,000 parties, or 16, in four processes wait until no commands are sent any more. Then the last one arrives, in a
separate process.
Measured: seconds from that arrival until the last party has returned, beside one bare message to each process.
"""
from ..scenario import Scenario, Target, figure, ratio


def of(name, parties, threads):
    ours = f"ours-barrier-{parties + 1}"
    return Scenario(
        name=name,
        title=f"{parties:,} parties of a barrier, 4 processes x {threads} threads; one operation = one party passed",
        kind="wake", base="floor-broadcast", threads=threads, processes=4, peers=("floor-broadcast", ours), targets=(
            Target(f"seconds until all have passed, {ours} / floor-broadcast",
                   ratio(ours, "floor-broadcast", "drain_s"), aim=2, at_most=True),
            Target(f"commands with arriving, {ours}", figure(ours, "commands_all"), at_most=True, unit=""),
            Target(f"messages, {ours}", figure(ours, "messages"), at_most=True, unit=""),
        ))


SCENARIOS = (of("B1", 1000, 250), of("B2", 16, 4))
