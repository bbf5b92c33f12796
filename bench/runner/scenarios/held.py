"""W5: what do held locks cost while nothing happens but their renewal?

Fixed: one process holds that many locks under its watchdog; both forms renew 10,000 keys a second.
One operation: none; CPU shares of a core over the window, memory per held lock, and how old the renewals are: lease
minus PTTL of every key, read six times within two thirds of a lease after the window.
"""
from ..scenario import Scenario, Target, figure

PEERS = ("floor-batch", "ours", "redisson")

TARGETS = (
    Target("client CPU of ours, % of a core", figure("ours", "client_pct"), 1.5, at_most=True, unit="%"),
    Target("server CPU of ours, % of a core", figure("ours", "server_pct"), 1.5, at_most=True, unit="%"),
    Target("memory of ours per held lock", figure("ours", "rss_each"), 400, at_most=True, unit="B"),
    Target("oldest renewal of ours / lease", figure("ours", "age_max"), 0.5, at_most=True, unit=""),
    Target("renewals later than half a lease, ours", figure("ours", "renewals_late"), 0, at_most=True, unit=""),
)

FULL = Scenario(name="W5", title="100,000 locks held, lease 30 s", kind="held", base="floor-batch", held=100_000,
                lease_ms=30_000, window_s=40, peers=PEERS, targets=TARGETS)

QUICK = Scenario(name="W5", title="10,000 locks held, lease 3 s", kind="held", base="floor-batch", held=10_000,
                 lease_ms=3_000, window_s=9, peers=PEERS, targets=TARGETS)
