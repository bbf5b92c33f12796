"""nested: what does it cost a holder to acquire again?

Fixed: one thread holds the lock under the watchdog during the whole round.
One operation: one acquire and one release more; times are the means of 1,000 (Java: 100) of them.
"""
from ..scenario import Scenario, Target

SCENARIOS = (
    Scenario(
        name="nested", title="1 thread that holds; one operation = acquire + release once more", kind="nested",
        base="floor-hash", threads=1, seconds=1.0,
        peers=("floor-hash", "ours", "redisson"),
        targets=(
            Target("ours, ns per pair", lambda s: 1e9 / s["ours"]["rate"], must=100, aim=50, at_most=True, unit="ns"),
        )),
)
